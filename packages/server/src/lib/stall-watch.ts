// Ends work that no longer makes progress, because a server, a disk or the storage hangs: what waits behind it gets its turn.

/** `touch`: reports progress. `at`: how far it is; the same value as before is no progress. */
export type Watched = Readonly<{ signal: AbortSignal; touch: (at?: number) => void }>;

/** Stopping a server that hangs takes more than a minute. */
const graceMs = 2 * 60_000;

export class Stalled extends Error {
  override readonly name = 'Stalled';

  /** For how long there was no progress, in words. */
  readonly time: string;

  constructor(stallMs: number) {
    const time = inWords(stallMs);
    super(`A server or the storage hangs: there was no progress for ${time}.`);
    this.time = time;
  }
}

function inWords(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  return minutes > 0 ? `${minutes} min` : `${Math.round(ms / 1000)} s`;
}

/** Rejects with `Stalled` after `stallMs` without progress. */
export async function whileItProgresses<T>(
  signal: AbortSignal,
  stallMs: number,
  act: (watched: Watched) => Promise<T>,
): Promise<T> {
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

/** The pieces as they come, each of which is progress. */
export async function* touching<T>(pieces: AsyncIterable<T>, touch: () => void): AsyncGenerator<T> {
  for await (const piece of pieces) {
    touch();
    yield piece;
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
