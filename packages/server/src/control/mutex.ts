// Work that runs one at a time among all processes of the installation. The process that works holds an advisory lock in a session of
// the control database, so that the lock ends with the process.
import { AccountSlots, type SlotLimits } from '../lib/account-slots.ts';
import { pause } from '../lib/pause.ts';
import type { Control } from './control.ts';
import { type Lock, tryLock } from './lock-names.ts';

type Options = Readonly<{
  /** The work, in the plural, for messages. */
  what: string;
  lock: Lock;
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
  lock: Lock,
  act: (lost: AbortSignal) => Promise<T>,
): Promise<T | null> {
  return control.session(async (session, lost) => ((await tryLock(session, lock)) ? act(lost) : null));
}
