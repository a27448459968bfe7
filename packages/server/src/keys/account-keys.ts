// Keys of an account. Each has a role, as a member has.

import type { AccountKey, IssueAccountKey, Role } from '@rowhouse/api';
import { recordChange } from '../control/change-feed.ts';
import type { Control } from '../control/control.ts';
import { errors } from '../errors/errors.ts';
import type { Queryable } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import { maxAccountKeys } from '../settings/limits/keys.ts';
import type { AccountCaller } from './caller.ts';
import { hashKey, isKeyId, makeKey, newKeyId, startOf } from './form.ts';
import { holdIssuer, issuerColumn } from './issuer.ts';
import { rankOf } from './roles.ts';

type Deps = { control: Control; now: () => number };
type Row = {
  id: string;
  name: string;
  role: Role;
  start: string;
  status: AccountKey['status'];
  expiresAt: Date | null;
  lastUsedAt: Date | null;
  createdAt: Date;
  revokedAt: Date | null;
  issuedBy: AccountKey['issued_by'];
};

const columns = sql`
  id, name, role, start, expires_at as "expiresAt", last_used_at as "lastUsedAt", created_at as "createdAt",
  revoked_at as "revokedAt", ${issuerColumn},
  case when revoked_at is not null then 'revoked' when expires_at <= now() then 'expired' else 'active' end as status`;

export async function listAccountKeys({ control }: Deps, accountId: string): Promise<AccountKey[]> {
  const rows = await control.query<Row>(sql`
    select ${columns} from keys where account_id = ${accountId} and kind = 'account' order by created_at, id`);
  return rows.map(toKey);
}

/** A caller cannot issue a key that may do more than itself. `issuer`: null if it is the operator. */
export async function issueAccountKey(
  { control, now }: Deps,
  caller: Pick<AccountCaller, 'accountId' | 'role' | 'expiresAt'>,
  { name, role = 'developer', expires_at: expiry }: IssueAccountKey,
  issuer: AccountCaller | null,
): Promise<{ key: AccountKey; apiKey: string }> {
  if (rankOf(role) > rankOf(caller.role)) throw errors.roleForbidden(caller.role);
  const expiresAt = expiry === undefined ? null : new Date(expiry);
  if (expiresAt && !(expiresAt.getTime() > now()))
    throw errors.invalidRequest([{ path: 'expires_at', problem: 'must be a time in the future' }]);
  if (caller.expiresAt !== null && !(expiresAt && expiresAt.getTime() <= caller.expiresAt))
    throw errors.invalidRequest([
      { path: 'expires_at', problem: 'must not be later than the expiry of the key that issues it' },
    ]);
  const apiKey = makeKey('rh_acct_');
  const { accountId } = caller;
  const row = await control.transaction(async (transaction) => {
    // The lock lets simultaneous requests count one after another, so that they stay under the limit together.
    await transaction.query(sql`select from accounts where id = ${accountId} for update`);
    const [count] = await transaction.query<{ live: number }>(sql`
      select count(*)::int as live from keys
      where account_id = ${accountId} and kind = 'account' and revoked_at is null
        and (expires_at is null or expires_at > now())`);
    if (count && count.live >= maxAccountKeys) {
      throw errors.conflict(
        `The account has ${maxAccountKeys} keys, which is the limit.`,
        'Revoke keys that are no longer used: DELETE …/account/keys/:id.',
      );
    }
    const issuedBy = issuer && (await holdIssuer(transaction, issuer));
    return insertAccountKey(transaction, { accountId, name: name.trim(), role, apiKey, expiresAt, issuedBy });
  });
  return { key: toKey(row), apiKey };
}

export async function insertAccountKey(
  transaction: Queryable,
  {
    accountId,
    name,
    role,
    apiKey,
    expiresAt = null,
    issuedBy = null,
  }: {
    accountId: string;
    name: string;
    role: Role;
    apiKey: string;
    expiresAt?: Date | null;
    issuedBy?: string | null;
  },
): Promise<Row> {
  const [row] = await transaction.query<Row>(sql`
    insert into keys (id, kind, account_id, role, name, start, hash, scopes, expires_at, issued_by)
    values (${newKeyId()}, 'account', ${accountId}, ${role}, ${name}, ${startOf(apiKey)}, ${hashKey(apiKey)}, '{}',
            ${expiresAt}, ${issuedBy})
    returning ${columns}`);
  if (!row) throw new Error('The key was not stored.');
  return row;
}

/** Idempotent. What was opened with the key ends with it. */
export async function revokeAccountKey(
  { control }: Deps,
  caller: AccountCaller,
  id: string,
): Promise<AccountKey> {
  const find = sql`account_id = ${caller.accountId} and kind = 'account' and id = ${isKeyId(id) ? id : ''}`;
  const row = await control.transaction(async (transaction) => {
    // In this order, as the removal of a member does. Of two owners' keys that are revoked at once, one stays.
    await transaction.query(sql`select from accounts where id = ${caller.accountId} for update`);
    const [found] = await transaction.query<Row>(sql`select ${columns} from keys where ${find} for update`);
    if (!found) throw errors.accountKeyNotFound(id);
    if (rankOf(found.role) > rankOf(caller.role)) throw errors.roleForbidden(caller.role);
    if (found.revokedAt) return found;
    await transaction.query(recordChange({ keyId: id }));
    await transaction.query(sql`delete from console_sessions where key_id = ${id}`);
    await transaction.query(sql`delete from console_links where key_id = ${id}`);
    const [revoked] = await transaction.query<Row>(
      sql`update keys set revoked_at = now() where ${find} returning ${columns}`,
    );
    if (found.role === 'owner') await requireOwnerLeft(transaction, caller.accountId);
    return revoked ?? found;
  });
  return toKey(row);
}

/** Somebody must be able to manage the account afterwards. The account's row is locked. */
export async function requireOwnerLeft(transaction: Queryable, accountId: string): Promise<void> {
  const [other] = await transaction.query(sql`
    select 1 from keys where account_id = ${accountId} and kind = 'account' and role = 'owner'
      and revoked_at is null and expires_at is null
    union all
    select 1 from members where account_id = ${accountId} and role = 'owner'
    limit 1`);
  if (!other) {
    throw errors.conflict(
      'This is the last key of an owner, and no member is an owner.',
      'Issue another key with the role owner first, or invite an owner.',
    );
  }
}

function toKey(row: Row): AccountKey {
  return {
    id: row.id,
    name: row.name,
    role: row.role,
    start: row.start,
    status: row.status,
    expires_at: row.expiresAt?.toISOString() ?? null,
    last_used_at: row.lastUsedAt?.toISOString() ?? null,
    created_at: row.createdAt.toISOString(),
    revoked_at: row.revokedAt?.toISOString() ?? null,
    issued_by: row.issuedBy,
  };
}
