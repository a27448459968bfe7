// Where a user has signed in before: the networks of its browsers. Strangers guess from elsewhere, so what they use up of
// the limits is not what a user has at such a place.

import type { AuthContext } from './deps.ts';
import { attemptId, networkOf } from './rate-limits.ts';

/** Each; the one that was not seen for longest gives way. */
const networksEach = 20;
/** Not seen for longer, it is a stranger's like any other. */
const rememberedDays = 180;

/** Of the network that a request comes from, as a bytea; null: the application's server does not say. */
export function networkIdOf({ address }: Pick<AuthContext, 'address'>): string | null {
  return address === null ? null : attemptId('network', networkOf(address));
}

/** For a `with` clause: a row if the user in the relation `owner` is known at this place; `network` is a parameter. */
export function isKnownNetwork(owner: string, network: string): string {
  return `
    select from auth.places join ${owner} on places.user_id = ${owner}.id
    where places.network = ${network}::bytea and places.seen_at > now() - interval '${rememberedDays} days'`;
}

/** For a `with` clause: the user in the relation `owner` has signed in here. Once a day is enough to know. */
export function rememberNetwork(owner: string, network: string): string {
  return `
    insert into auth.places as kept (user_id, network)
    select ${owner}.id, ${network}::bytea from ${owner} where ${network}::bytea is not null
    on conflict (user_id, network) do update set seen_at = now() where kept.seen_at < now() - interval '1 day'`;
}

/** For a `with` clause beside it. */
export function dropOldNetworks(owner: string): string {
  return `
    delete from auth.places where user_id = (select id from ${owner}) and network = any (array(
      select network from auth.places where user_id = (select id from ${owner})
      order by seen_at desc offset ${networksEach - 1}))`;
}
