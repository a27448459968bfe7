// Callers that need the same result at the same time share one run.

/** A function that begins `act`, or returns the run for the same key that is still under way. */
export function openInFlight<T>(): (key: string, act: () => Promise<T>) => Promise<T> {
  const running = new Map<string, Promise<T>>();
  return (key, act) => {
    const known = running.get(key);
    if (known) return known;
    const run = act().finally(() => running.delete(key));
    running.set(key, run);
    return run;
  };
}
