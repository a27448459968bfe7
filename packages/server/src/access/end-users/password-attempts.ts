// Decides who may try a password now. Guessing is limited per account, regardless of the source. The account's owner
// can still sign in during an attack: a known network has its own limit, and from elsewhere a slow limit (`late`)
// remains when attackers have used up the usual one. Unknown e-mails are treated like any other.
import { errors, type RowhouseError } from '../../errors/errors.ts';
import { networkOf } from '../../lib/networks.ts';
import type { Email } from '../mail/emails.ts';
import type { AuthContext } from './auth-context.ts';
import type { UserDeps } from './deps.ts';
import { isKnownNetwork, networkIdOf } from './known-networks.ts';
import { attemptId, count, waitFor } from './rate-limits.ts';

/** The user whose password is tried, and the limits that the attempt was counted against. */
export type Admitted = Readonly<{
  id: string | null;
  hash: string | null;
  isBanned: boolean;
  /** To be undone if the password is right: the attempts to clear, and the address to refund one attempt to. */
  cleared: string | null;
  address: string | null;
}>;

/** The limit that admitted the attempt. */
type AdmittedBy = 'known' | 'account' | 'late';
type Found = Pick<Admitted, 'id' | 'hash' | 'isBanned'> & {
  by: AdmittedBy | null;
  wait: number | null;
};

/** Counts the attempt. Throws if the limits are used up. */
export async function admit({ store }: UserDeps, context: AuthContext, { key }: Email): Promise<Admitted> {
  const network = context.address === null ? null : networkOf(context.address);
  const ids = {
    account: attemptId('account', key),
    late: attemptId('late', key),
    address: network && attemptId('address', network),
    known: network && attemptId('place', key, network),
    stranger: network && attemptId('stranger', key, network),
  };
  const params = [key, networkIdOf(context), ids.known, ids.address, ids.account, ids.late, ids.stranger];
  const found = await store.ask<Found>(context, admitting, params);
  if (!found?.by) throw tooManyAttempts(found?.wait ?? 1);
  return {
    id: found.id,
    hash: found.hash,
    isBanned: found.isBanned,
    cleared: { known: ids.known, account: ids.account, late: ids.stranger }[found.by],
    address: found.by === 'known' ? null : ids.address,
  };
}

/** The attempts that a new password clears: the account's, and those from the network where it was set. */
export function clearedByNewPassword(context: AuthContext, emailKey: string): string {
  const network = context.address === null ? null : networkOf(context.address);
  const ids = [attemptId('account', emailKey), attemptId('late', emailKey)];
  if (network !== null)
    ids.push(attemptId('place', emailKey, network), attemptId('stranger', emailKey, network));
  return `{${ids.map((id) => `"\\${id}"`).join(',')}}`;
}

/** Whom the limit on new users counts: the network, with a publishable key. null: an application is not limited. */
export function newcomerOf({ isPublic, address }: AuthContext): string | null {
  return isPublic && address !== null ? attemptId('newcomer', networkOf(address)) : null;
}

export function tooManyAttempts(waitS: number): RowhouseError {
  return errors.rateLimited('Too many sign-in attempts failed.', waitS);
}

/** Counts the address before the account: an address over its limit must not use up other users' attempts too. */
const admitting = `
  with known as (
    select users.id, passwords.hash, users.banned_at is not null as is_banned
    from auth.users left join auth.passwords on passwords.user_id = users.id where users.email_key = $1
  ), known_network as (${isKnownNetwork('known', '$2')}),
  by_network as (${count('place', '$3', 'exists (select from known_network)')}),
  by_address as (${count('address', '$4', 'not exists (select from by_network)')}),
  let_through as (select where not exists (select from by_network) and ($4::bytea is null or exists (select from by_address))),
  by_account as (${count('account', '$5', 'exists (select from let_through)')}),
  late as (
    select from let_through where not exists (select from by_account)
      and not exists (select from auth.attempts where id = $6::bytea and used_until > now())),
  by_stranger as (${count('stranger', '$7', 'exists (select from late)')}),
  by_late as (${count('late', '$6', 'exists (select from late) and ($7::bytea is null or exists (select from by_stranger))')}),
  chosen as (
    select case when exists (select from by_network) then 'known' when exists (select from by_account) then 'account'
                when exists (select from by_late) then 'late' end as by)
  select json_build_object(
    'by', chosen.by,
    'wait', case when chosen.by is null then least(
      case when exists (select from known_network) then ${waitFor('place', '$3')} end,
      case when exists (select from let_through)
           then least(${waitFor('account', '$5')}, greatest(${waitFor('late', '$6')}, ${waitFor('stranger', '$7')}))
           else ${waitFor('address', '$4')} end) end,
    'id', (select id from known), 'hash', (select hash from known),
    'isBanned', coalesce((select is_banned from known), false))
  from chosen`;
