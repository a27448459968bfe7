// How many Idempotency-Keys an account has, and how many bytes of stored responses: measured regularly and estimated in between.
// A counter row would be a lock for all its requests.
import { LRUCache } from 'lru-cache';
import type { Control } from '../control/control.ts';
import type { Caller } from '../keys/caller.ts';
import { upTo } from '../lib/cache-size.ts';
import { openInFlight } from '../lib/in-flight.ts';
import { sql } from '../postgres/sql.ts';

export type Usage = { measuredAt: number; begun: number; count: number; publicCount: number; bytes: number };

const maxAgeMs = 10_000;
/** The count reads all rows of the account, so the number of requests between two counts grows with them. */
const requestsBetween = ({ count }: Usage) => Math.max(500, count / 10);

export type Usages = {
  /** `isOver`: whether a request would be refused by it. */
  of(accountId: string, isOver: (usage: Usage) => boolean): Promise<Usage>;
};

export function watchUsage(control: Control): Usages {
  const known = new LRUCache<string, Usage>(upTo(10_000));
  const measuring = openInFlight<Usage>();
  const measure = async (accountId: string): Promise<Usage> => {
    const usage = known.get(accountId) ?? { measuredAt: 0, begun: 0, count: 0, publicCount: 0, bytes: 0 };
    const { begun } = usage;
    const [row] = await control.query<Pick<Usage, 'count' | 'publicCount' | 'bytes'>>(sql`
      select count(*)::int as count, (count(*) filter (where is_public))::int as "publicCount",
             coalesce(sum(octet_length(answer)), 0)::float8 as bytes
      from repeats where account_id = ${accountId}`);
    // The count may have missed requests that began while it ran, so they stay in `begun`.
    Object.assign(usage, { ...row, begun: usage.begun - begun, measuredAt: performance.now() });
    known.set(accountId, usage);
    return usage;
  };
  return {
    of: async (accountId, isOver) => {
      const usage = known.get(accountId);
      const again = () => measuring(accountId, () => measure(accountId));
      if (!usage) return again();
      const mayRefuse = isOver(usage);
      const isRecent = performance.now() - usage.measuredAt < maxAgeMs;
      if (isRecent && usage.begun < (mayRefuse ? 1 : requestsBetween(usage))) return usage;
      // Some of those that began since may have freed their keys.
      if (mayRefuse) return again();
      // Nobody waits for it. If it fails, the next request asks again, and its reservation tells why.
      again().catch(() => {});
      return usage;
    },
  };
}

export function isOver({ count, publicCount, begun }: Usage, caller: Caller, maxKeys: number): boolean {
  if (count + begun >= maxKeys) return true;
  return caller.kind === 'publishable' && publicCount + begun >= shareOf(caller, maxKeys);
}

export function shareOf(caller: Caller, maxKeys: number): number {
  return caller.kind === 'publishable' ? maxKeys / 10 : maxKeys;
}
