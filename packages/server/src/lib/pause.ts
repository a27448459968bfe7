// Time in loops that work until they are ended: the pause between two rounds, and how long they wait for an answer.

/**
 * Resolves after `ms`, or as soon as one of the signals is aborted. It never rejects, so a loop checks the signals itself. Not
 * AbortSignal.any() for each pause: in Node.js 20, a signal that lasts keeps something of every signal that was made from it.
 */
export function pause(ms: number, ...signals: readonly AbortSignal[]): Promise<void> {
  return new Promise((resolve) => {
    if (signals.some(({ aborted }) => aborted)) return resolve();
    const timer = setTimeout(done, ms);
    for (const signal of signals) signal.addEventListener('abort', done, { once: true });
    function done() {
      clearTimeout(timer);
      for (const signal of signals) signal.removeEventListener('abort', done);
      resolve();
    }
  });
}

export type UnlessFailed = <T>(work: Promise<T>) => Promise<T>;

/**
 * For loops that wait for one thing after the other while something lasts: what `work` resolves with, unless `lasting` rejects
 * before. After Promise.race() in each round, `lasting` would keep something of every round.
 */
export function unlessFailed(lasting: Promise<unknown>): UnlessFailed {
  const waiting = new Set<(error: unknown) => void>();
  let failure: { error: unknown } | null = null;
  lasting.catch((error: unknown) => {
    failure = { error };
    for (const reject of waiting) reject(error);
  });
  return (work) =>
    new Promise((resolve, reject) => {
      if (failure) reject(failure.error);
      else waiting.add(reject);
      work.then(resolve, reject).finally(() => waiting.delete(reject));
    });
}

/**
 * What `asked` resolves with, or `late` if that takes longer than `ms`. No timer stays behind: those of an idle service would
 * wake it as often as its loops do.
 */
export async function within<T, L>(ms: number, asked: Promise<T>, late: L): Promise<T | L> {
  let timer: NodeJS.Timeout | undefined;
  const tooLate = new Promise<L>((resolve) => {
    timer = setTimeout(resolve, ms, late).unref();
  });
  try {
    return await Promise.race([asked, tooLate]);
  } finally {
    clearTimeout(timer);
  }
}
