// Lets a few operations run at a time on each server; the others wait, in order. What waits for one server does not hold up
// those on another.

export type Turns = {
  take<T>(serverId: number, act: () => Promise<T>): Promise<T>;
  /** How many wait for this server. */
  waiting(serverId: number): number;
  /** How many run on it. */
  running(serverId: number): number;
  /** Lets all that wait go on, when the service stops. */
  wakeAll(): void;
};

type Line = { running: number; waiting: (() => void)[] };

export function openTurns(atOnce: number): Turns {
  const lines = new Map<number, Line>();
  const lineOf = (serverId: number): Line => {
    const found = lines.get(serverId) ?? { running: 0, waiting: [] };
    lines.set(serverId, found);
    return found;
  };
  return {
    take: async (serverId, act) => {
      const line = lineOf(serverId);
      // A turn is handed over: `running` stays as it is.
      if (line.running >= atOnce) await new Promise<void>((resolve) => line.waiting.push(resolve));
      else line.running++;
      try {
        return await act();
      } finally {
        const next = line.waiting.shift();
        if (next) next();
        else line.running--;
      }
    },
    waiting: (serverId) => lines.get(serverId)?.waiting.length ?? 0,
    running: (serverId) => lines.get(serverId)?.running ?? 0,
    wakeAll: () => {
      for (const line of lines.values()) {
        const resumed = line.waiting.splice(0);
        line.running += resumed.length;
        for (const resume of resumed) resume();
      }
    },
  };
}
