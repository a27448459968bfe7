// The keys that settings of the service name, or its first start creates: of the first account, and of the operator.
import { recordChange } from '../control/changes.ts';
import type { Queryable } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';
import { hashKey, newKeyId, startOf } from './form.ts';

/** Makes `apiKey` the account's only key. */
export async function setAccountKey(
  transaction: Queryable,
  accountId: string,
  apiKey: string,
): Promise<'kept' | 'set'> {
  const hash = hashKey(apiKey);
  const [current] = await transaction.query(sql`
    select 1 from keys where account_id = ${accountId} and kind = 'account' and revoked_at is null and hash = ${hash}`);
  if (current) return 'kept';
  const ended = await transaction.query<{ id: string }>(sql`
    update keys set revoked_at = now()
    where account_id = ${accountId} and kind = 'account' and revoked_at is null returning id`);
  for (const { id } of ended) await transaction.query(recordChange({ keyId: id }));
  // This key can be set again later. What was opened with it must not be valid again then.
  const ids = ended.map(({ id }) => id);
  await transaction.query(sql`delete from console_sessions where key_id = any (${ids}::text[])`);
  await transaction.query(sql`delete from console_links where key_id = any (${ids}::text[])`);
  await transaction.query(sql`
    insert into keys (id, kind, account_id, role, name, start, hash, scopes)
    values (${newKeyId()}, 'account', ${accountId}, 'owner', 'account key', ${startOf(apiKey)}, ${hash}, '{}')
    on conflict (hash) do update set revoked_at = null, role = 'owner'`);
  return 'set';
}

/** Makes `apiKey` the operator's only key. */
export async function setOperatorKey(transaction: Queryable, apiKey: string): Promise<void> {
  const hash = hashKey(apiKey);
  const ended = await transaction.query<{ id: string }>(sql`
    update keys set revoked_at = now()
    where kind = 'operator' and revoked_at is null and hash <> ${hash} returning id`);
  for (const { id } of ended) await transaction.query(recordChange({ keyId: id }));
  await transaction.query(sql`
    insert into keys (id, kind, name, start, hash, scopes)
    values (${newKeyId()}, 'operator', 'operator key', ${startOf(apiKey)}, ${hash}, '{}')
    on conflict (hash) do update set revoked_at = null`);
}
