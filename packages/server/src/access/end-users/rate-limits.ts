// Token buckets against guessing and flooding, stored in the project's database (auth.attempts) so that they hold
// across processes and restarts. An attempt is counted before its password is checked, so concurrent requests cannot
// exceed a limit.
import { createHash } from 'node:crypto';
import { isIP } from 'node:net';

/** A token bucket: `burst` attempts at once, and one more every `everyS` seconds. */
type Rule = Readonly<{ burst: number; everyS: number }>;

/** The names are part of the stored ids (see `attemptId`): renaming one resets its counts. */
const rules = {
  /** Wrong passwords for one e-mail, whether or not the user exists. The right password clears it. */
  account: { burst: 10, everyS: 60 },
  /** The slow limit once `account` is used up. However many clients guess, these two are all they get together. */
  late: { burst: 1, everyS: 30 },
  /** A share of `late` for one e-mail from one network, so that a few networks cannot use up all of it. */
  stranger: { burst: 3, everyS: 600 },
  /** Wrong passwords for one e-mail from a known network of its user. */
  place: { burst: 10, everyS: 60 },
  /** Wrong values of current_password in one session. */
  session: { burst: 10, everyS: 60 },
  /** Wrong passwords from one network, if the end user's address is known. */
  address: { burst: 30, everyS: 10 },
  /**
   * Sign-ups, new e-mails and codes from one network with publishable keys: each reveals whether an e-mail is taken.
   */
  newcomer: { burst: 30, everyS: 60 },
  /** Codes for one e-mail. */
  code: { burst: 5, everyS: 300 },
  /** Notices to one e-mail that it is no longer in use. Anyone can sign up with an e-mail that is not theirs. */
  notice: { burst: 3, everyS: 3_600 },
} satisfies Record<string, Rule>;

export type Limit = keyof typeof rules;

/** The id of a bucket, as a bytea. */
export function attemptId(limit: Limit | 'network', ...about: string[]): string {
  return `\\x${createHash('sha256')
    .update(JSON.stringify([limit, ...about]))
    .digest('hex')}`;
}

/** Some proxies append the port, which differs each time. */
function withoutPort(given: string): string {
  return /^(?:(\d+\.\d+\.\d+\.\d+)|\[(.+)\])(?::\d+)?$/.exec(given)?.slice(1).find(Boolean) ?? given;
}

export function isAddress(given: string): boolean {
  return isIP(withoutPort(given)) !== 0;
}

/** An IPv6 client controls a whole /64, so that counts as one network. */
export function networkOf(given: string): string {
  const address = withoutPort(given);
  if (!address.includes(':')) return address;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped) return mapped;
  const [head = '', tail] = address.split('%', 1)[0]?.split('::') ?? [];
  const before = head === '' ? [] : head.split(':');
  const after = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - before.length - after.length);
  const groups = [...before, ...Array<string>(zeros).fill('0'), ...after];
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`;
}

/**
 * For a `with` clause: counts one attempt and returns a row, or no row if the limit is reached. `id` is a parameter;
 * null counts nothing and returns no row.
 */
export function count(limit: Limit, id: string, condition = 'true'): string {
  const { burst, everyS } = rules[limit];
  return `
    insert into auth.attempts as kept (id, used_until)
    select ${id}::bytea, now() + interval '${everyS} s' where ${id}::bytea is not null and ${condition}
    on conflict (id) do update set used_until = greatest(kept.used_until, now()) + interval '${everyS} s'
    where kept.used_until <= now() + interval '${everyS * (burst - 1)} s'
    returning 1`;
}

/** Seconds until the next attempt is allowed; null if nothing was counted yet. */
export function waitFor(limit: Limit, id: string): string {
  const { burst, everyS } = rules[limit];
  return `(
    select greatest(1, ceil(extract(epoch from used_until - now()) - ${everyS * (burst - 1)}))::int
    from auth.attempts where id = ${id}::bytea)`;
}

/** Refunds one attempt: its password was right. */
export function refund(limit: Limit, id: string): string {
  return `
    update auth.attempts set used_until = used_until - interval '${rules[limit].everyS} s' where id = ${id}::bytea`;
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
