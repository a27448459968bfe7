// Whether other processes serve the same installation. Each holds a shared advisory lock in the session that follows the changes
// (changes.ts). A process that could also have it exclusively is the only one.
//
// Others trust that they are alone for as long as they trust a poll (`trustedMs`). So a process that was not alone when it took
// the lock counts as known to them only after that time.
import type { Queryable } from '../postgres/database.ts';
import { type Sql, sql } from '../postgres/sql.ts';

const lock = sql`hashtext('rowhouse process')`;

/** Part of a poll, in the session that holds the lock: it is free again at the end of the statement. */
export const isAlone: Sql = sql`pg_try_advisory_xact_lock(${lock})`;

/** Returns whether no other process holds it. */
export async function takePresence(session: Queryable): Promise<boolean> {
  await session.query(sql`select pg_advisory_lock_shared(${lock})`);
  const [row] = await session.query<{ alone: boolean }>(sql`select ${isAlone} as alone`);
  return row?.alone === true;
}
