// Work that a response does not wait for: because it must not show in the time of the response whether there was any, or
// because it may fail.

export type Later = {
  /** Never throws. What fails is reported. Beyond a limit, the work is dropped and reported. */
  run(work: () => Promise<unknown>): void;
  /** Waits for what is running. */
  stop(): Promise<void>;
};

const maxRunning = 64;

export function openLater(onError: (error: unknown) => void): Later {
  const running = new Set<Promise<unknown>>();
  return {
    run: (work) => {
      if (running.size >= maxRunning)
        return onError(new Error('Too much work is waiting: some was dropped.'));
      const done: Promise<unknown> = Promise.resolve()
        .then(work)
        .catch(onError)
        .finally(() => running.delete(done));
      running.add(done);
    },
    stop: async () => {
      while (running.size > 0) await Promise.all(running);
    },
  };
}
