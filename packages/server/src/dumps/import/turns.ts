// Work that PostgreSQL has to do, a few pieces at a time.

/** Runs a few at a time; the others wait, in order. */
export function openTurns(most: number) {
  const waiting: (() => void)[] = [];
  let running = 0;
  return {
    take: async <T>(signal: AbortSignal, act: () => Promise<T>): Promise<T> => {
      if (running >= most) {
        await new Promise<void>((resolve, reject) => {
          const leave = () => {
            waiting.splice(waiting.indexOf(go), 1);
            reject(signal.reason);
          };
          const go = () => {
            signal.removeEventListener('abort', leave);
            resolve();
          };
          waiting.push(go);
          signal.addEventListener('abort', leave, { once: true });
        });
      } else running++;
      try {
        return await act();
      } finally {
        const next = waiting.shift();
        if (next) next();
        else running--;
      }
    },
  };
}
