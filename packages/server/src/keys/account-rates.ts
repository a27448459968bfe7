// Requests a second of an account, of all its keys and members together: a bucket for each account that has a limit. Every
// process has its share, so that the limit costs no look-up.
import { LRUCache } from 'lru-cache';
import { errors } from '../errors/errors.ts';
import { upTo } from '../lib/cache-size.ts';
import type { Caller } from './caller.ts';

export type AccountRates = {
  /** Whether the account may send another request now. */
  admits(caller: Caller): boolean;
  /** The same, as an error. */
  require(caller: Caller): void;
};

const maxAccounts = 20_000;

/** `processes`: how many share the limits on this machine. */
export function openAccountRates(now: () => number, processes: number): AccountRates {
  const buckets = new LRUCache<string, { left: number; at: number }>(upTo(maxAccounts));
  const admits = ({ accountId, maxPerSecond }: Caller): boolean => {
    if (maxPerSecond === null) return true;
    const rate = maxPerSecond / processes;
    const most = Math.max(1, rate);
    const at = now();
    const bucket = buckets.get(accountId) ?? { left: most, at };
    // A clock that was set back gives nothing.
    bucket.left = Math.min(most, bucket.left + (Math.max(0, at - bucket.at) / 1000) * rate);
    bucket.at = at;
    buckets.set(accountId, bucket);
    if (bucket.left < 1) return false;
    bucket.left--;
    return true;
  };
  return {
    admits,
    require: (caller) => {
      if (!admits(caller))
        throw errors.rateLimited(`The account may send ${caller.maxPerSecond} requests a second.`, 1);
    },
  };
}
