// Whether other processes serve the same installation. Each holds a shared advisory lock in the session that follows the changes
// (change-feed.ts). A process that can also take it exclusively is the only one.
//
// Another process may believe for as long as it trusts a poll (`trustedMs`) that it is alone. So a process that was not alone
// when it took the lock assumes only after that time that the others know of it.
import { randomInt } from 'node:crypto';
import type { Queryable } from '../postgres/admin/database.ts';
import { type Sql, sql } from '../postgres/sql.ts';
import { isFree, isHeld, locks, shareLock } from './lock-names.ts';

/** Part of a poll, in the session that holds the shared lock. The exclusive lock ends with the statement. */
export const isAlone: Sql = isFree(locks.process);

/** Names this process in the rows of what it runs. Each process holds a lock of this name, too, in the same session. */
export const runner = randomInt(-(2 ** 31), 2 ** 31 - 1);

/** Whether the process of this name lives and is connected. For a moment after a lost connection, it is not. */
export function isPresent(name: Sql): Sql {
  return isHeld(locks.runner(name));
}

/** Takes the shared locks. Returns whether no other process serves the installation. */
export async function takePresence(session: Queryable): Promise<boolean> {
  // Shared: after a lost connection, PostgreSQL may still hold the lock of the last one.
  await shareLock(session, locks.runner(sql`${runner}::int`));
  await shareLock(session, locks.process);
  const [row] = await session.query<{ alone: boolean }>(sql`select ${isAlone} as alone`);
  return row?.alone === true;
}
