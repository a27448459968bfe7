// Limits on guessing and flooding, kept in the project's own database so that they hold across processes and restarts.
// An attempt is counted before its password is looked at: however many come at once, no more than the limit get through.
import { createHash } from 'node:crypto';
import { isIP } from 'node:net';

/** So many at once, and one more every so often. */
type Rule = Readonly<{ burst: number; everyS: number }>;

const rules = {
  /** Wrong passwords for one e-mail, whether there is such a user or not. A right one clears it. */
  account: { burst: 10, everyS: 60 },
  /** The slow way, once others have used up what is above. However many guess, these two are all they get. */
  late: { burst: 1, everyS: 30 },
  /** Of the slow way, for one e-mail from one address: few addresses cannot take all of it. */
  stranger: { burst: 3, everyS: 600 },
  /** Wrong passwords for one e-mail from where its user has signed in before. */
  place: { burst: 10, everyS: 60 },
  /** Wrong current passwords in one session of a user. */
  session: { burst: 10, everyS: 60 },
  /** Wrong passwords from one address, where that is the user's own. */
  address: { burst: 30, everyS: 10 },
  /** New users, their e-mails and codes from one address, by publishable keys: each tells whether an e-mail is taken. */
  newcomer: { burst: 30, everyS: 60 },
  /** Codes for one e-mail. */
  code: { burst: 5, everyS: 300 },
  /** Letters to one e-mail that it is a user's no longer. Anybody can say that it was theirs. */
  notice: { burst: 3, everyS: 3_600 },
} satisfies Record<string, Rule>;

export type Limit = keyof typeof rules;

/** What is counted together, as a bytea. */
export function attemptId(limit: Limit | 'network', ...about: string[]): string {
  return `\\x${createHash('sha256')
    .update(JSON.stringify([limit, ...about]))
    .digest('hex')}`;
}

/** Some proxies write a port behind the address: another one each time. */
function withoutPort(given: string): string {
  return /^(?:(\d+\.\d+\.\d+\.\d+)|\[(.+)\])(?::\d+)?$/.exec(given)?.slice(1).find(Boolean) ?? given;
}

export function isAddress(given: string): boolean {
  return isIP(withoutPort(given)) !== 0;
}

/** A user of IPv6 has a whole /64 to call from. */
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
 * For a `with` clause: counts one attempt and gives a row, or none if the limit is reached. `id`: a parameter; null counts
 * nothing and gives none.
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

/** In how many seconds there is room for one again; null if nothing was counted yet. */
export function waitFor(limit: Limit, id: string): string {
  const { burst, everyS } = rules[limit];
  return `(
    select greatest(1, ceil(extract(epoch from used_until - now()) - ${everyS * (burst - 1)}))::int
    from auth.attempts where id = ${id}::bytea)`;
}

/** It was no wrong one: what was counted for it is given back. */
export function giveBack(limit: Limit, id: string): string {
  return `
    update auth.attempts set used_until = used_until - interval '${rules[limit].everyS} s' where id = ${id}::bytea`;
}

/** What is past says nothing any more. Asked twice: an attempt may be counted in the row while the deletion waits for it. */
export const forgetPast = `
  with gone as (
    delete from auth.attempts where used_until < now() and id = any (array(
      select id from auth.attempts where used_until < now() order by used_until limit 500))
    returning 1)
  select count(*)::text from gone`;
