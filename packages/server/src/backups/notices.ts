// Tells the operators when nothing is stored and when that is over: at once if the repository is missing, and otherwise if it lasts.
import { type NotBackedUp, problemOf } from './problem.ts';
import { isAbsent } from './storage/storage.ts';

/** `problem`: null if it is over. `server`: its name. */
export type TellOperators = (server: string, problem: NotBackedUp | null) => void;

export type Notices = {
  /** Each failure. null: there is none any more. */
  record(error: unknown): void;
  /** Another process tells from now on. */
  stop(): void;
};

const lastingMs = 5 * 60_000;
/** A storage that comes and goes does not fill a mailbox. */
const againMs = 60 * 60_000;

export function openNotices(server: string, tell: TellOperators, now: () => number): Notices {
  let waiting: NodeJS.Timeout | undefined;
  let latest: unknown = null;
  let isTold = false;
  let toldAt = Number.NEGATIVE_INFINITY;
  const stop = () => {
    clearTimeout(waiting);
    waiting = undefined;
  };
  const tellNow = () => {
    stop();
    if (isTold || latest === null || now() - toldAt < againMs) return;
    isTold = true;
    toldAt = now();
    tell(server, problemOf(latest));
  };
  return {
    stop,
    record: (error) => {
      latest = error;
      if (error !== null && isAbsent(error)) tellNow();
      else if (error !== null) waiting ??= setTimeout(tellNow, lastingMs).unref();
      else {
        stop();
        if (isTold) tell(server, null);
        isTold = false;
      }
    },
  };
}
