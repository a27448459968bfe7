// Who may try a password now. Guessing is limited for each account, whoever guesses; the owner of the right password gets
// in all the same: at a place where it has signed in before it has a limit of its own, and elsewhere there is a slow way
// when strangers have used up the usual one. An e-mail that nobody has is treated like any other.
import { errors, type RowhouseError } from '../errors.ts';
import type { AuthContext, UserDeps } from './deps.ts';
import type { Email } from './emails.ts';
import { isKnownNetwork, networkIdOf } from './known-networks.ts';
import { attemptId, count, networkOf, waitFor } from './rate-limits.ts';

/** What an attempt was counted against, and the user whose password it is about. */
export type Admitted = Readonly<{
  id: string | null;
  hash: string | null;
  isBanned: boolean;
  /** Counted for nothing if the password is right: what to forget, and the address to give one back to. */
  forgets: string | null;
  address: string | null;
}>;

type Way = 'place' | 'account' | 'late';
type Found = Pick<Admitted, 'id' | 'hash' | 'isBanned'> & { way: Way | null; wait: number | null };

/** Counts the attempt. Throws if it has to wait. */
export async function admit({ store }: UserDeps, context: AuthContext, { key }: Email): Promise<Admitted> {
  const network = context.address === null ? null : networkOf(context.address);
  const ids = {
    account: attemptId('account', key),
    late: attemptId('late', key),
    address: network && attemptId('address', network),
    place: network && attemptId('place', key, network),
    stranger: network && attemptId('stranger', key, network),
  };
  const params = [key, networkIdOf(context), ids.place, ids.address, ids.account, ids.late, ids.stranger];
  const found = await store.ask<Found>(context.projectId, admitting, params);
  if (!found?.way) throw tooManyAttempts(found?.wait ?? 1);
  return {
    ...{ id: found.id, hash: found.hash, isBanned: found.isBanned },
    forgets: { place: ids.place, account: ids.account, late: ids.stranger }[found.way],
    address: found.way === 'place' ? null : ids.address,
  };
}

/** What a new password lifts for its user, at the place from where it was set. */
export function liftedBy(context: AuthContext, emailKey: string): string {
  const network = context.address === null ? null : networkOf(context.address);
  const ids = [attemptId('account', emailKey), attemptId('late', emailKey)];
  if (network !== null)
    ids.push(attemptId('place', emailKey, network), attemptId('stranger', emailKey, network));
  return `{${ids.map((id) => `"\\${id}"`).join(',')}}`;
}

/** Who makes new users, for the limit on them: by a publishable key anybody, by another the application itself. */
export function newcomerOf({ isPublic, address }: AuthContext): string | null {
  return isPublic && address !== null ? attemptId('newcomer', networkOf(address)) : null;
}

export function tooManyAttempts(waitS: number): RowhouseError {
  return errors.rateLimited('Too many attempts with wrong passwords.', waitS);
}

/** The address before the account: who has used that up must not use up other people's accounts as well. */
const admitting = `
  with known as (
    select users.id, passwords.hash, users.banned_at is not null as is_banned
    from auth.users left join auth.passwords on passwords.user_id = users.id where users.email_key = $1
  ), home as (${isKnownNetwork('known', '$2')}),
  by_place as (${count('place', '$3', 'exists (select from home)')}),
  by_address as (${count('address', '$4', 'not exists (select from by_place)')}),
  let_through as (select where not exists (select from by_place) and ($4::bytea is null or exists (select from by_address))),
  by_account as (${count('account', '$5', 'exists (select from let_through)')}),
  late as (
    select from let_through where not exists (select from by_account)
      and not exists (select from auth.attempts where id = $6::bytea and used_until > now())),
  by_stranger as (${count('stranger', '$7', 'exists (select from late)')}),
  by_late as (${count('late', '$6', 'exists (select from late) and ($7::bytea is null or exists (select from by_stranger))')}),
  chosen as (
    select case when exists (select from by_place) then 'place' when exists (select from by_account) then 'account'
                when exists (select from by_late) then 'late' end as way)
  select json_build_object(
    'way', way,
    'wait', case when way is null then least(
      case when exists (select from home) then ${waitFor('place', '$3')} end,
      case when exists (select from let_through)
           then least(${waitFor('account', '$5')}, greatest(${waitFor('late', '$6')}, ${waitFor('stranger', '$7')}))
           else ${waitFor('address', '$4')} end) end,
    'id', (select id from known), 'hash', (select hash from known),
    'isBanned', coalesce((select is_banned from known), false))
  from chosen`;
