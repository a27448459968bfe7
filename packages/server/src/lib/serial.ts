// One at a time for each key, in order of arrival, in this process.

/** Runs `act` when everything with this key that came before has ended. */
export type Serial = <T>(key: string, act: () => Promise<T>) => Promise<T>;

/** `tooMany`: the error for what comes while `most` with the same key are running or waiting. */
export function openSerial({ most, tooMany }: { most: number; tooMany: () => Error }): Serial {
  const lines = new Map<string, { count: number; last: Promise<unknown> }>();
  return async (key, act) => {
    const line = lines.get(key) ?? { count: 0, last: Promise.resolve() };
    if (line.count >= most) throw tooMany();
    line.count++;
    lines.set(key, line);
    const mine = line.last.then(act);
    line.last = mine.catch(() => {});
    try {
      return await mine;
    } finally {
      line.count--;
      if (line.count === 0) lines.delete(key);
    }
  };
}
