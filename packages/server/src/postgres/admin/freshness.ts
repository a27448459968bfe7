// How old the data of standbys is, by the clock of this process alone: a standby that has replayed what the primary had
// flushed at some time has everything that was committed before it. The time of the last replayed commit would say nothing
// while nothing is committed.
import type { Host } from '../wire/server-address.ts';

export type Freshness = {
  /** `at`: before the primary was asked. `flushed`: what it then said. */
  notePrimary(at: number, flushed: number): void;
  noteStandby(host: Host, replayed: number): void;
  forget(host: Host): void;
  /** After a promotion: positions on different timelines cannot be compared. */
  forgetAll(): void;
  /** A standby whose data was at most this old when it was asked last, or null. With several, each gets its share. */
  find(maxMs: number): Host | null;
  /** Whether the data of a standby that has replayed this much is at most this old. */
  isFresh(host: Host, replayed: number, maxMs: number): boolean;
};

/** With four looks a second, two minutes. A standby that is further behind is not used. */
const maxPositions = 480;

export function openFreshness(now: () => number = () => performance.now()): Freshness {
  const positions: { at: number; flushed: number }[] = [];
  /** The time as of which a standby has everything. */
  const asOf = new Map<Host, number>();
  const timeOf = (replayed: number) =>
    positions.findLast(({ flushed }) => flushed <= replayed)?.at ?? Number.NEGATIVE_INFINITY;
  return {
    notePrimary: (at, flushed) => {
      positions.push({ at, flushed });
      if (positions.length > maxPositions) positions.shift();
    },
    noteStandby: (host, replayed) => void asOf.set(host, timeOf(replayed)),
    forget: (host) => void asOf.delete(host),
    forgetAll: () => {
      positions.length = 0;
      asOf.clear();
    },
    find: (maxMs) => {
      const fit = [...asOf].filter(([, at]) => now() - at <= maxMs);
      return fit[Math.floor(Math.random() * fit.length)]?.[0] ?? null;
    },
    isFresh: (host, replayed, maxMs) => asOf.has(host) && now() - timeOf(replayed) <= maxMs,
  };
}
