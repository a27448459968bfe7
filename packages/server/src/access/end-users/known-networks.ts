// Known networks: those from which a user has signed in before (table auth.places). Attackers guess from other
// networks, so attempts from a known network have a rate limit that attackers cannot use up.

import { networkOf } from '../../lib/networks.ts';
import { knownNetworkDays, networksPerUser } from '../../settings/limits/end-users.ts';
import type { AuthContext } from './auth-context.ts';
import { attemptId } from './rate-limits.ts';

/**
 * The id of the network that a request comes from, as a bytea; null: the application did not send the user's address.
 */
export function networkIdOf({ address }: Pick<AuthContext, 'address'>): string | null {
  return address === null ? null : attemptId('network', networkOf(address));
}

/** For a `with` clause: a row if `network` (a parameter) is a known network of the user in the relation `owner`. */
export function isKnownNetwork(owner: string, network: string): string {
  return `
    select from auth.places join ${owner} on places.user_id = ${owner}.id
    where places.network = ${network}::bytea and places.seen_at > now() - interval '${knownNetworkDays} days'`;
}

/** For a `with` clause: records a sign-in of the user in the relation `owner`. One update a day is precise enough. */
export function rememberNetwork(owner: string, network: string): string {
  return `
    insert into auth.places as kept (user_id, network)
    select ${owner}.id, ${network}::bytea from ${owner} where ${network}::bytea is not null
    on conflict (user_id, network) do update set seen_at = now() where kept.seen_at < now() - interval '1 day'`;
}

/** For a `with` clause next to `rememberNetwork`, whose row it does not see. */
export function dropOldNetworks(owner: string): string {
  return `
    delete from auth.places where user_id = (select id from ${owner}) and network = any (array(
      select network from auth.places where user_id = (select id from ${owner})
      order by seen_at desc offset ${networksPerUser - 1}))`;
}
