// How many Idempotency-Keys an account has, and how many bytes of stored responses: measured regularly and estimated in between.
// A counter row would be a lock for all its requests.
import { LRUCache } from 'lru-cache';
import type { Control } from '../control/control.ts';
import type { Caller } from '../keys/caller.ts';
import { upTo } from '../lib/cache-size.ts';
import { sql } from '../postgres/sql.ts';

export type Usage = { measuredAt: number; begun: number; count: number; publicCount: number; bytes: number };

const usageMs = 10_000;
const usageRequests = 500;

export function watchUsage(control: Control): { of(accountId: string): Promise<Usage> } {
  const known = new LRUCache<string, Promise<Usage>>(upTo(10_000));
  const measure = async (accountId: string): Promise<Usage> => {
    const [row] = await control.query<Omit<Usage, 'measuredAt' | 'begun'>>(sql`
      select count(*)::int as count, (count(*) filter (where is_public))::int as "publicCount",
             coalesce(sum(octet_length(answer)), 0)::float8 as bytes
      from repeats where account_id = ${accountId}`);
    return { measuredAt: performance.now(), begun: 0, count: 0, publicCount: 0, bytes: 0, ...row };
  };
  return {
    of: async (accountId) => {
      const pending = known.get(accountId);
      const last = await pending?.catch(() => undefined);
      if (last && last.begun < usageRequests && performance.now() - last.measuredAt < usageMs) return last;
      // Only one of many simultaneous requests measures.
      const other = known.get(accountId);
      if (other && other !== pending) return other;
      const fresh = measure(accountId);
      known.set(accountId, fresh);
      return fresh;
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
