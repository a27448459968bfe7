// Callers that need the same result at the same time share one run.

export type InFlight<T> = {
  /** Begins `act`, or returns the run for the same key that is still under way. */
  (key: string, act: () => Promise<T>): Promise<T>;
  /** Something has changed: later callers must not get the result of a run that began before. */
  forget(): void;
  /** Resolves when all runs have ended, however they end. */
  settled(): Promise<void>;
};

export function openInFlight<T>(): InFlight<T> {
  const running = new Map<string, Promise<T>>();
  const share = (key: string, act: () => Promise<T>): Promise<T> => {
    const known = running.get(key);
    if (known) return known;
    const run = act().finally(() => {
      if (running.get(key) === run) running.delete(key);
    });
    running.set(key, run);
    return run;
  };
  return Object.assign(share, {
    forget: () => running.clear(),
    settled: async () => {
      await Promise.allSettled(running.values());
    },
  });
}
