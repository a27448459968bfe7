// Limits failed sign-ins of one network. Keys and links have 256 random bits, so that this is not against guessing: it keeps
// a program that tries from costing look-ups. It counts in memory, because an unauthenticated request must not cause writes.
import { LRUCache } from 'lru-cache';
import { networkOf } from '../../access/end-users/rate-limits.ts';
import { errors, RowhouseError } from '../../errors/errors.ts';
import { upTo } from '../../lib/cache-size.ts';

export type Attempts = {
  /** Counts a request whatever comes of it. Throws beyond the limit. */
  count(who: string): void;
  /** Runs `attempt` if the limit allows it, and counts it if it fails because of the caller. */
  try<T>(who: string, attempt: () => Promise<T>): Promise<T>;
};

export const burst = 10;
const refillMs = 6_000;
const maxNetworks = 10_000;

export function openAttempts(now: () => number, tooMany = 'Too many sign-in attempts failed.'): Attempts {
  /** When the attempts of a network are all available again. */
  const usedUntil = new LRUCache<string, number>(upTo(maxNetworks));
  const count = (who: string) => {
    const at = now();
    // A clock that was set back must not lock anyone out for longer than the limit does.
    const known = Math.min(usedUntil.get(who) ?? 0, at + burst * refillMs);
    const until = Math.max(known, at) + refillMs;
    const overMs = until - at - burst * refillMs;
    if (overMs > 0) throw errors.rateLimited(tooMany, Math.ceil(overMs / 1000));
    usedUntil.set(who, until);
  };
  return {
    count,
    try: async (who, attempt) => {
      // Counted before it runs, so that many at once cannot exceed the limit.
      count(who);
      const refund = () => usedUntil.set(who, (usedUntil.get(who) ?? 0) - refillMs);
      try {
        const done = await attempt();
        refund();
        return done;
      } catch (error) {
        if (!(error instanceof RowhouseError) || error.status >= 500) refund();
        throw error;
      }
    },
  };
}

export function whoTries(address: string): string {
  return networkOf(address);
}
