// Token buckets against guessing and flooding, stored in the project's database (auth.attempts) so that they hold
// across processes and restarts. An attempt is counted before its password is checked, so concurrent requests cannot
// exceed a limit.
import { createHash } from 'node:crypto';
import type { Rate } from '../../lib/rate-limits.ts';
import { sql } from '../../postgres/sql.ts';
import {
  refundStored,
  type StoredBucket,
  storedWait,
  takeStored,
} from '../../postgres/stored-rate-limits.ts';

/** The names are part of the stored ids (see `attemptId`): renaming one resets its counts. */
const rules = {
  /** Wrong passwords for one e-mail, whether or not the user exists. The right password clears it. */
  account: { burst: 10, refillMs: 60_000 },
  /** The slow limit once `account` is used up. However many clients guess, these two are all they get together. */
  late: { burst: 1, refillMs: 30_000 },
  /** A share of `late` for one e-mail from one network, so that a few networks cannot use up all of it. */
  stranger: { burst: 3, refillMs: 600_000 },
  /** Wrong passwords for one e-mail from a known network of its user. */
  place: { burst: 10, refillMs: 60_000 },
  /** Wrong values of current_password in one session. */
  session: { burst: 10, refillMs: 60_000 },
  /** Wrong passwords from one network, if the end user's address is known. */
  address: { burst: 30, refillMs: 10_000 },
  /**
   * Sign-ups, new e-mails and codes from one network with publishable keys: each reveals whether an e-mail is taken.
   */
  newcomer: { burst: 30, refillMs: 60_000 },
  /** Codes for one e-mail. */
  code: { burst: 5, refillMs: 300_000 },
  /** Notices to one e-mail that it is no longer in use. Anyone can sign up with an e-mail that is not theirs. */
  notice: { burst: 3, refillMs: 3_600_000 },
} satisfies Record<string, Rate>;

export type Limit = keyof typeof rules;

/** The id of a bucket, as a bytea. */
export function attemptId(limit: Limit | 'network', ...about: string[]): string {
  return `\\x${createHash('sha256')
    .update(JSON.stringify([limit, ...about]))
    .digest('hex')}`;
}

/**
 * For a `with` clause: counts one attempt and returns a row, or no row if the limit is reached. `id` is a parameter;
 * null counts nothing and returns no row.
 */
export function count(limit: Limit, id: string, condition = 'true'): string {
  return takeStored(bucketOf(limit, id), sql.script(condition)).text;
}

/** Seconds until the next attempt is allowed; null if nothing was counted yet. */
export function waitFor(limit: Limit, id: string): string {
  return storedWait(bucketOf(limit, id)).text;
}

/** Refunds one attempt: its password was right. */
export function refund(limit: Limit, id: string): string {
  return refundStored(bucketOf(limit, id)).text;
}

function bucketOf(limit: Limit, id: string): StoredBucket {
  return { table: sql`auth.attempts`, id: sql.script(id), rate: rules[limit] };
}

/**
 * Deletes full buckets. The condition is repeated: an attempt may be counted in a row while the deletion waits for it.
 */
export const deleteFullBuckets = `
  with gone as (
    delete from auth.attempts where used_until < now() and id = any (array(
      select id from auth.attempts where used_until < now() order by used_until limit 500))
    returning 1)
  select count(*)::text from gone`;
