// The pace of background work on a server: a round every two seconds, or every ten while nobody uses the server and nothing
// is committed. Use is then noticed within three seconds, by one cheap look for all loops of the server.
import { pause } from '../lib/pause.ts';
import { sql } from '../postgres/sql.ts';
import { sessionExists } from '../servers/databases/session-exists.ts';
import type { Server } from '../servers/server.ts';
import { openQuietTime } from './when-changed.ts';

/**
 * Resolves when the next round is due, or as soon as the signal is aborted. `roundMs`: how long the last round took, if
 * rounds are to begin at equal intervals.
 */
export type NextRound = (ended: AbortSignal, roundMs?: number) => Promise<void>;

const usualPace = { tickMs: 2_000, idleTickMs: 10_000, idleAfterMs: 30_000 };
/** Between two rounds that take long: statements of callers come first. */
const minPauseMs = 50;
/** A server that takes longer to answer counts as used: the next round reports what is wrong. */
const answerMs = 2_000;

export function openPacing(server: Server, { tickMs, idleTickMs, idleAfterMs } = usualPace): NextRound {
  const readQuietMs = openQuietTime(server);
  let looking: Promise<boolean> | null = null;
  let [isUsed, lookAgainAt] = [true, 0];
  const look = async () => {
    isUsed = (await readQuietMs()) < idleAfterMs || (await hasSessions(server));
    // Sessions stay for minutes, and with thousands of them a look is not cheap.
    lookAgainAt = performance.now() + (isUsed ? idleTickMs : tickMs / 2);
    return isUsed;
  };
  const readUse = () => {
    if (performance.now() < lookAgainAt) return Promise.resolve(isUsed);
    looking ??= look()
      .catch(() => true)
      .finally(() => {
        looking = null;
      });
    return looking;
  };
  return async (ended, roundMs = 0) => {
    await pause(Math.max(minPauseMs, tickMs - roundMs), ended);
    for (let waited = tickMs; waited < idleTickMs && !ended.aborted; waited += tickMs) {
      if (await inTime(readUse(), ended)) return;
      await pause(untilNext(tickMs), ended);
    }
  };
}

/** Loops that wait come together: they wake an idle service once, and share a look. */
function untilNext(tickMs: number): number {
  const leftMs = tickMs - (performance.now() % tickMs);
  // A timer can fire a little early.
  return leftMs < tickMs / 20 ? leftMs + tickMs : leftMs;
}

/** True if there is no answer in time, or the work has ended. */
function inTime(answer: Promise<boolean>, ended: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const settle = (isUsed: boolean) => {
      clearTimeout(timer);
      ended.removeEventListener('abort', giveUp);
      resolve(isUsed);
    };
    const giveUp = () => settle(true);
    const timer = setTimeout(giveUp, answerMs);
    ended.addEventListener('abort', giveUp, { once: true });
    void answer.then(settle);
  });
}

async function hasSessions({ maintenance }: Server): Promise<boolean> {
  const [row] = await maintenance.query<{ found: boolean }>(sql`select ${sessionExists} as found`);
  return row?.found ?? true;
}
