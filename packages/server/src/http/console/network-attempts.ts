// Limits failed sign-ins of one network. Keys and links have 256 random bits, so that this is not against guessing: it keeps
// a program that tries from costing look-ups. It counts in memory, because an unauthenticated request must not cause writes.
import { errors, RowhouseError } from '../../errors/errors.ts';
import { networkOf } from '../../lib/networks.ts';
import { openBuckets } from '../../lib/rate-limits.ts';

export type Attempts = {
  /** Counts a request whatever comes of it. Throws beyond the limit. */
  count(who: string): void;
  /** Runs `attempt` if the limit allows it, and counts it if it fails because of the caller. */
  try<T>(who: string, attempt: () => Promise<T>): Promise<T>;
};

export const burst = 10;
const rate = { burst, refillMs: 6_000 };
const maxNetworks = 10_000;

export function openAttempts(now: () => number, tooMany = 'Too many sign-in attempts failed.'): Attempts {
  const buckets = openBuckets({ now, most: maxNetworks });
  const count = (who: string) => {
    const waitMs = buckets.take(who, rate);
    if (waitMs > 0) throw errors.rateLimited(tooMany, Math.ceil(waitMs / 1000));
  };
  return {
    count,
    try: async (who, attempt) => {
      // Counted before it runs, so that many at once cannot exceed the limit.
      count(who);
      try {
        const done = await attempt();
        buckets.refund(who, rate);
        return done;
      } catch (error) {
        if (!(error instanceof RowhouseError) || error.status >= 500) buckets.refund(who, rate);
        throw error;
      }
    },
  };
}

export function whoTries(address: string): string {
  return networkOf(address);
}
