// Time in loops that work until they are ended: the pause between two rounds, and how long they wait for an answer.

/** Resolves after `ms`, or as soon as the signal is aborted. It never rejects, so a loop checks the signal itself. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
    function done() {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    }
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
