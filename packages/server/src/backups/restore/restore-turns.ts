// Restores and drills take turns, one at a time across all processes: each needs disk, memory and a core. One that no longer makes
// progress, because a server or the storage hangs, is ended, so that the next one gets its turn.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Control } from '../../control/control.ts';
import { AccountSlots } from '../../lib/account-slots.ts';
import { type Watched, whileItProgresses } from '../../lib/stall-watch.ts';
import { sql } from '../../postgres/sql.ts';

export type Turn = Watched;
/** `account`: whose restore it is. null: the service's own. */
type Patience = { account: string | null; signal: AbortSignal; stallMs?: number | undefined };

/**
 * On Linux, every WAL file that is replayed is progress. On other systems, PostgreSQL says nothing before it has replayed what was
 * written during the backup: in this time, it replays 100 GB.
 */
const usualStallMs = 30 * 60_000;
const turnMs = 500;
/** In this process, by turns of accounts. Only the first one waits for other processes, with a session that holds the lock. */
const limits = { all: 1, waiting: 40, waitingPerAccount: 16 };
const slotsOf = new WeakMap<Control, AccountSlots>();

/** Waits for other restores. The lock is a session's, so it ends with the process that holds it. */
export function inTurn<T>(
  control: Control,
  { account, signal, stallMs = usualStallMs }: Patience,
  act: (turn: Turn) => Promise<T>,
): Promise<T> {
  const slots = slotsOf.get(control) ?? new AccountSlots('restores', limits);
  slotsOf.set(control, slots);
  const underLock = () =>
    control.session(async (session, lost) => {
      const either = AbortSignal.any([signal, lost]);
      for (;;) {
        const [row] = await session.query<{ mine: boolean }>(tryLock);
        if (row?.mine) return whileItProgresses(either, stallMs, act);
        await sleep(turnMs, undefined, { signal: either });
      }
    });
  return slots.take(account, underLock, signal);
}

export async function ifNoneRuns(control: Control, act: () => Promise<void>): Promise<void> {
  await control.session(async (session) => {
    const [row] = await session.query<{ mine: boolean }>(tryLock);
    if (row?.mine) await act();
  });
}

const tryLock = sql`select pg_try_advisory_lock(hashtext('rowhouse restore')) as mine`;
