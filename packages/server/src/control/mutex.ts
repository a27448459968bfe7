// Work that runs one at a time among all processes of the installation. The process that works holds an advisory lock in a session of
// the control database, so that the lock ends with the process.
import { AccountSlots, type SlotLimits } from '../lib/account-slots.ts';
import { pause } from '../lib/pause.ts';
import type { Queryable } from '../postgres/admin/database.ts';
import { type Sql, sql } from '../postgres/sql.ts';
import type { Control } from './control.ts';

type Options = Readonly<{
  /** The work, in the plural, for messages. */
  what: string;
  /** The key of the advisory lock: a bigint, or two integers. */
  lock: Sql;
  /** How much of it may wait in this process. */
  limits: Pick<SlotLimits, 'waiting' | 'waitingPerAccount'>;
  /** How often a process looks whether another one has ended its work. */
  lookMs: number;
}>;

/** Whose work it is (null: the service's own), and what ends the wait, with its reason. */
type Waiter = Readonly<{ account: string | null; signal: AbortSignal }>;

/** `lost`: the session has ended, and the lock with it. */
export type Mutex = <T>(waiter: Waiter, act: (lost: AbortSignal) => Promise<T>) => Promise<T>;

/** In this process, work goes by turns of accounts: only the first one takes a session and waits for other processes. */
export function openMutex(control: Control, { what, lock, limits, lookMs }: Options): Mutex {
  const slots = new AccountSlots(what, { all: 1, ...limits });
  return ({ account, signal }, act) => {
    const underLock = () =>
      control.session(async (session, lost) => {
        while (!(await tryLock(session, lock))) {
          await pause(lookMs, signal, lost);
          signal.throwIfAborted();
          lost.throwIfAborted();
        }
        return act(lost);
      });
    return slots.take(account, underLock, signal);
  };
}

/** Runs `act` if no process holds the lock now. Otherwise returns null. */
export function ifFree<T>(
  control: Control,
  lock: Sql,
  act: (lost: AbortSignal) => Promise<T>,
): Promise<T | null> {
  return control.session(async (session, lost) => ((await tryLock(session, lock)) ? act(lost) : null));
}

/** Takes the lock for the rest of the session. False: another session holds it. */
async function tryLock(session: Queryable, lock: Sql): Promise<boolean> {
  const [row] = await session.query<{ mine: boolean }>(sql`select pg_try_advisory_lock(${lock}) as mine`);
  return row?.mine ?? false;
}
