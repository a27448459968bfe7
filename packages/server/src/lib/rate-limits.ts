// Token buckets in the memory of this process, by key: an account, a network, a session.
import { LRUCache } from 'lru-cache';
import { upTo } from './cache-size.ts';

/** `burst` at once, and one more every `refillMs`. */
export type Rate = Readonly<{ burst: number; refillMs: number }>;

export type Buckets = {
  /** Takes one. Returns 0; or, if there is none, in how many milliseconds there will be one. */
  take(key: string, rate: Rate): number;
  /** Gives one back: it did not count. */
  refund(key: string, rate: Rate): void;
};

/** What is left over when times that are no whole milliseconds are added up. */
const roundingMs = 0.001;

/** `most`: beyond so many keys, those that were used longest ago are forgotten. */
export function openBuckets({ now, most }: { now: () => number; most: number }): Buckets {
  /** `usedMs`: how long it takes until the bucket is full again, from `at` on. */
  const buckets = new LRUCache<string, { usedMs: number; at: number }>(upTo(most));
  return {
    take: (key, { burst, refillMs }) => {
      const at = now();
      const fullMs = burst * refillMs;
      const bucket = buckets.get(key) ?? { usedMs: 0, at };
      // A clock that was set back gives nothing, and locks nobody out for longer than the limit does.
      const passedMs = Math.max(0, at - bucket.at);
      bucket.usedMs = Math.max(0, Math.min(bucket.usedMs, fullMs) - passedMs);
      bucket.at = at;
      const overMs = bucket.usedMs + refillMs - fullMs;
      // Not a number if the rate is zero.
      if (!(overMs <= roundingMs)) return overMs || Number.POSITIVE_INFINITY;
      bucket.usedMs += refillMs;
      buckets.set(key, bucket);
      return 0;
    },
    refund: (key, { refillMs }) => {
      const bucket = buckets.get(key);
      if (bucket) bucket.usedMs = Math.max(0, bucket.usedMs - refillMs);
    },
  };
}
