// Whether other processes serve the same installation. Each holds a shared advisory lock in the session that follows the changes
// (changes.ts). A process that can also take it exclusively is the only one.
//
// Another process may believe for as long as it trusts a poll (`trustedMs`) that it is alone. So a process that was not alone
// when it took the lock assumes only after that time that the others know of it.
import type { Queryable } from '../postgres/database.ts';
import { type Sql, sql } from '../postgres/sql.ts';

const lock = sql`hashtext('rowhouse process')`;

/** Part of a poll, in the session that holds the shared lock. The exclusive lock ends with the statement. */
export const isAlone: Sql = sql`pg_try_advisory_xact_lock(${lock})`;

/** Takes the shared lock. Returns whether no other process holds it. */
export async function takePresence(session: Queryable): Promise<boolean> {
  await session.query(sql`select pg_advisory_lock_shared(${lock})`);
  const [row] = await session.query<{ alone: boolean }>(sql`select ${isAlone} as alone`);
  return row?.alone === true;
}
