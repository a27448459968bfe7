// Requests a second of an account, of all its keys and members together. Every process has its share, so that the limit costs no
// look-up.
import { errors } from '../errors/errors.ts';
import { openBuckets } from '../lib/rate-limits.ts';
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
  const buckets = openBuckets({ now, most: maxAccounts });
  const admits = ({ accountId, maxPerSecond }: Caller): boolean => {
    if (maxPerSecond === null) return true;
    const perSecond = maxPerSecond / processes;
    return buckets.take(accountId, { burst: Math.max(1, perSecond), refillMs: 1000 / perSecond }) === 0;
  };
  return {
    admits,
    require: (caller) => {
      if (!admits(caller))
        throw errors.rateLimited(`The account may send ${caller.maxPerSecond} requests a second.`, 1);
    },
  };
}
