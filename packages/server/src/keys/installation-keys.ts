// The keys that settings of the service name, or its first start creates: of the first account, and of the operator.
import { recordChange } from '../control/change-feed.ts';
import type { Queryable } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import { hashKey, newKeyId, startOf } from './form.ts';

/**
 * Makes `apiKey` the key that the start has given to the account. It replaces the one of an earlier start; keys that somebody
 * issued stay. A key that somebody revoked stays revoked: `refused`.
 */
export async function setAccountKey(
  transaction: Queryable,
  accountId: string,
  apiKey: string,
): Promise<'kept' | 'set' | 'refused'> {
  const hash = hashKey(apiKey);
  const [known] = await transaction.query<{ isLive: boolean; isReplaced: boolean }>(sql`
    select revoked_at is null as "isLive", is_replaced as "isReplaced" from keys where hash = ${hash}`);
  if (known?.isLive) return 'kept';
  if (known && !known.isReplaced) return 'refused';
  const ended = await transaction.query<{ id: string }>(sql`
    update keys set revoked_at = now(), is_replaced = true
    where account_id = ${accountId} and kind = 'account' and is_of_start and revoked_at is null returning id`);
  for (const { id } of ended) await transaction.query(recordChange({ keyId: id }));
  // This key can be set again later. What was opened with it must not be valid again then.
  const ids = ended.map(({ id }) => id);
  await transaction.query(sql`delete from console_sessions where key_id = any (${ids}::text[])`);
  await transaction.query(sql`delete from console_links where key_id = any (${ids}::text[])`);
  await transaction.query(sql`
    insert into keys (id, kind, account_id, role, name, start, hash, scopes, is_of_start)
    values (${newKeyId()}, 'account', ${accountId}, 'owner', 'account key', ${startOf(apiKey)}, ${hash}, '{}', true)
    on conflict (hash) do update set revoked_at = null, is_replaced = false, role = 'owner'`);
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
