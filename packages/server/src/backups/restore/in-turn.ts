// Restores and drills take turns, one at a time across all processes: each needs disk, memory and a core. One that no longer makes
// progress, because a server or the storage hangs, is ended, so that the next one gets its turn.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Control } from '../../control/control.ts';
import { sql } from '../../postgres/sql.ts';

/** `touch`: reports progress. `at`: how far it is; the same value as before is no progress. */
export type Turn = Readonly<{ signal: AbortSignal; touch: (at?: number) => void }>;
/** `stallMs`: how long it may be without progress. */
type Patience = { signal: AbortSignal; stallMs?: number | undefined };

/**
 * On Linux, every WAL file that is replayed is progress. On other systems, PostgreSQL says nothing before it has replayed what was
 * written during the backup: in this time, it replays 100 GB.
 */
const usualStallMs = 30 * 60_000;
/** Stopping a server that hangs takes more than a minute. */
const graceMs = 2 * 60_000;
const turnMs = 500;

export class Stalled extends Error {
  override readonly name = 'Stalled';

  constructor(stallMs: number) {
    const minutes = Math.round(stallMs / 60_000);
    const time = minutes > 0 ? `${minutes} min` : `${Math.round(stallMs / 1000)} s`;
    super(`A server or the storage hangs: there was no progress for ${time}.`);
  }
}

/** Waits for other restores. The lock is a session's, so it ends with the process that holds it. */
export function inTurn<T>(
  control: Control,
  { signal, stallMs = usualStallMs }: Patience,
  act: (turn: Turn) => Promise<T>,
): Promise<T> {
  return control.session(async (session, lost) => {
    const either = AbortSignal.any([signal, lost]);
    for (;;) {
      const [row] = await session.query<{ mine: boolean }>(tryLock);
      if (row?.mine) return watched(either, stallMs, act);
      await sleep(turnMs, undefined, { signal: either });
    }
  });
}

export async function ifNoneRuns(control: Control, act: () => Promise<void>): Promise<void> {
  await control.session(async (session) => {
    const [row] = await session.query<{ mine: boolean }>(tryLock);
    if (row?.mine) await act();
  });
}

const tryLock = sql`select pg_try_advisory_lock(hashtext('rowhouse restore')) as mine`;

async function watched<T>(signal: AbortSignal, stallMs: number, act: (turn: Turn) => Promise<T>): Promise<T> {
  const stalled = new AbortController();
  const timer = setTimeout(() => stalled.abort(new Stalled(stallMs)), stallMs);
  const either = AbortSignal.any([signal, stalled.signal]);
  let last: number | undefined;
  const touch = (at?: number) => {
    if (at !== undefined && at === last) return;
    last = at;
    timer.refresh();
  };
  try {
    return await orLeave(act({ signal: either, touch }), either);
  } catch (error) {
    // Whatever else has failed, this is the cause. An error that names it as its cause knows more.
    const { aborted: isStalled, reason } = stalled.signal;
    throw isStalled && !(error instanceof Error && error.cause === reason) ? reason : error;
  } finally {
    clearTimeout(timer);
  }
}

/** Abandons work that does not end after its signal, such as a read from a disk that hangs. The next turn removes its files. */
function orLeave<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const leave = () => {
      timer = setTimeout(() => reject(signal.reason), graceMs);
    };
    if (signal.aborted) leave();
    signal.addEventListener('abort', leave, { once: true });
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', leave);
    };
    work.then(resolve, reject).finally(end);
  });
}
