// Steps of a round of background work. One that takes too long goes on by itself and is not begun again before it has ended, so
// that it holds up no other.
import { pause } from '../lib/pause.ts';

export type Steps = {
  /** Resolves when the step has ended, or takes too long, or the work is to end. */
  step(what: string, act: () => Promise<unknown>): Promise<void>;
  /** Resolves when all steps have ended. */
  settled(): Promise<void>;
};

/** `act` never rejects. `onSlow`: called once for each run that takes longer than `stepMs`. */
export function openSteps(stepMs: number, ended: AbortSignal, onSlow: (what: string) => void): Steps {
  const running = new Map<string, Promise<unknown>>();
  return {
    step: async (what, act) => {
      if (running.has(what)) return;
      const one = act().finally(() => running.delete(what));
      running.set(what, one);
      const waiting = new AbortController();
      const stop = () => waiting.abort();
      // Not AbortSignal.any(): in Node.js 20, `ended` would keep 60 bytes of each, and there are some hundred thousand a day.
      ended.addEventListener('abort', stop, { once: true });
      if (ended.aborted) stop();
      await Promise.race([one, pause(stepMs, waiting.signal)]);
      ended.removeEventListener('abort', stop);
      stop();
      if (running.get(what) === one && !ended.aborted) onSlow(what);
    },
    settled: async () => {
      await Promise.all(running.values());
    },
  };
}
