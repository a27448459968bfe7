// The pause between two rounds of a loop that works until it is ended.

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
