// Restores and drills run one at a time among all processes: each needs disk, memory and a core. One that no longer makes progress,
// because a server or the storage hangs, is ended, so that the next one gets its turn.
import type { Control } from '../../control/control.ts';
import { locks } from '../../control/lock-names.ts';
import { ifFree, type Mutex, openMutex } from '../../control/mutex.ts';
import { type Watched, whileItProgresses } from '../../lib/stall-watch.ts';

export type Turn = Watched;
/** `account`: whose restore it is. null: the service's own. */
type Patience = { account: string | null; signal: AbortSignal; stallMs?: number | undefined };

/**
 * On Linux, every WAL file that is replayed is progress. On other systems, PostgreSQL says nothing before it has replayed what was
 * written during the backup: in this time, it replays 100 GB.
 */
const usualStallMs = 30 * 60_000;
const options = {
  what: 'restores',
  lock: locks.restore,
  limits: { waiting: 40, waitingPerAccount: 16 },
  lookMs: 500,
};
const mutexes = new WeakMap<Control, Mutex>();

/** Waits for other restores and drills. */
export function restoreInTurn<T>(
  control: Control,
  { account, signal, stallMs = usualStallMs }: Patience,
  act: (turn: Turn) => Promise<T>,
): Promise<T> {
  const mutex = mutexes.get(control) ?? openMutex(control, options);
  mutexes.set(control, mutex);
  return mutex({ account, signal }, (lost) =>
    whileItProgresses(AbortSignal.any([signal, lost]), stallMs, act),
  );
}

export async function ifNoneRestores(control: Control, act: () => Promise<void>): Promise<void> {
  await ifFree(control, locks.restore, act);
}
