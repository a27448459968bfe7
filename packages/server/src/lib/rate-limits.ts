// Token buckets in the memory of this process, by key: an account, a network, a session.
import { LRUCache } from 'lru-cache';
import { upTo } from './cache-size.ts';

/** A bucket holds `burst` tokens and gains one every `refillMs`. */
export type Rate = Readonly<{ burst: number; refillMs: number }>;

export type Buckets = {
  /** Takes a token and returns 0. If the bucket is empty, returns the milliseconds until the next token. */
  take(key: string, rate: Rate): number;
  /** Gives a token back, for an attempt that does not count. */
  refund(key: string, rate: Rate): void;
};

/** Tolerates the rounding error of sums of fractional milliseconds. */
const roundingMs = 0.001;

/** `most`: the number of keys that are kept. The least recently used ones are forgotten first. */
export function openBuckets({ now, most }: { now: () => number; most: number }): Buckets {
  /** `usedMs`: how long the bucket takes to become full again, counted from `at`. */
  const buckets = new LRUCache<string, { usedMs: number; at: number }>(upTo(most));
  return {
    take: (key, { burst, refillMs }) => {
      const at = now();
      const fullMs = burst * refillMs;
      const bucket = buckets.get(key) ?? { usedMs: 0, at };
      // If the clock was set back, no time has passed. Nobody is locked out for longer than the limit allows.
      const passedMs = Math.max(0, at - bucket.at);
      bucket.usedMs = Math.max(0, Math.min(bucket.usedMs, fullMs) - passedMs);
      bucket.at = at;
      const overMs = bucket.usedMs + refillMs - fullMs;
      // NaN if the rate is zero.
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
