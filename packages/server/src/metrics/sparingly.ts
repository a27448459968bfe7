// Values that take longer to read the more projects there are. With few projects they are read at each request for metrics.
// With many, the last value is the answer, and reading takes at most a hundredth of the time.

/** Reads that are faster than this are made at once. */
const fastMs = 20;
const pauseFactor = 100;

export function sparingly<T>(
  read: () => Promise<T>,
  now: () => number = () => performance.now(),
): () => Promise<T> {
  let reading: Promise<T> | null = null;
  let last: { value: T; tookMs: number; endedAt: number } | null = null;

  /** Callers at the same time share one read. */
  const readNow = (): Promise<T> => {
    const startedAt = now();
    reading ??= read()
      .then((value) => {
        last = { value, tookMs: now() - startedAt, endedAt: now() };
        return value;
      })
      .finally(() => {
        reading = null;
      });
    return reading;
  };

  return async () => {
    if (!last || last.tookMs < fastMs) return readNow();
    const { value, tookMs, endedAt } = last;
    if (now() - endedAt >= tookMs * pauseFactor) {
      // The value of an old success must not hide that reads fail now.
      readNow().catch(() => {
        last = null;
      });
    }
    return value;
  };
}
