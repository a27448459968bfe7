// Sign-up and sign-in, in this order: a reservation in the hashing queue, so that a flood is refused before it costs
// anything; the database look-up; the hash; one statement that does everything else.
import type { SignIn, SignUp, User } from '@rowhouse/api';
import { errors } from '../../errors/errors.ts';
import { readEmail, readNewEmail } from '../mail/emails.ts';
import { checkGiven, checkPassword } from '../passwords/passwords.ts';
import type { AuthContext } from './auth-context.ts';
import { defaultRole, readData, readRole } from './data.ts';
import type { UserDeps } from './deps.ts';
import { dropOldNetworks, networkIdOf, rememberNetwork } from './known-networks.ts';
import { refuseCommon } from './new-passwords.ts';
import { admit, newcomerOf } from './password-attempts.ts';
import { count, deleteFullBuckets, refund, waitFor } from './rate-limits.ts';
import { dropOldSessions, insertSession, newSession, type SignedIn, toSession } from './sessions.ts';
import { lockById, userJson } from './store.ts';

export async function signUp(deps: UserDeps, context: AuthContext, input: SignUp): Promise<SignedIn> {
  const email = readNewEmail(input.email);
  checkPassword(input.password);
  const data = readData(input.data);
  const role = readRole(context, input.data) ?? defaultRole;
  const reservation = deps.hashing.reserve(context.projectId, context.accountId);
  try {
    const newcomer = newcomerOf(context);
    const found = await deps.store.ask<{ wait: number | null; taken: boolean; refuseCommon: boolean }>(
      context,
      beforeSignUp,
      [newcomer, email.key],
    );
    if (found?.wait) throw errors.rateLimited('Too many sign-ups came from this IP address.', found.wait);
    if (found?.taken) throw errors.emailTaken();
    if (found?.refuseCommon) refuseCommon(input.password);
    const session = newSession(deps, context.projectId);
    // Checked before the expensive hash.
    await deps.query.admission.headroom.require(context.projectId);
    const hash = await reservation.hash(input.password);
    const params = [email.typed, email.key, role, data, hash, session.id, session.hash, networkIdOf(context)];
    const user = await deps.store.add<User>(context, signingUp, params);
    if (!user) throw errors.emailTaken();
    return { user, session: await toSession(deps, context, user, session) };
  } finally {
    reservation.release();
  }
}

const beforeSignUp = `
  with counted as (${count('newcomer', '$1')})
  select json_build_object(
    'wait', case when $1::bytea is not null and not exists (select from counted) then ${waitFor('newcomer', '$1')} end,
    'taken', exists (select from auth.users where email_key = $2),
    'refuseCommon', (select refuse_common_passwords from auth.settings))`;

const signingUp = `
  with made as (
    insert into auth.users (email, email_key, role, data, last_sign_in_at) values ($1, $2, $3, $4::jsonb, now())
    on conflict (email_key) do nothing returning *
  ), password as (insert into auth.passwords (user_id, hash) select id, $5 from made),
  session as (${insertSession('made', '$6', '$7')}),
  known_network as (${rememberNetwork('made', '$8')})
  select ${userJson('made')} from made`;

export async function signIn(deps: UserDeps, context: AuthContext, input: SignIn): Promise<SignedIn> {
  const email = readEmail(input.email);
  checkGiven(input.password);
  const reservation = deps.hashing.reserve(context.projectId, context.accountId);
  try {
    const known = await admit(deps, context, email).finally(() => tidyOccasionally(deps, context));
    const stored = known.hash;
    const { matches, isOutdated } = await reservation.verify(input.password, stored);
    if (!matches || !known.id || stored === null) throw errors.invalidCredentials();
    if (known.isBanned) throw errors.userBanned();
    const better = isOutdated ? await reservation.hash(input.password) : null;
    const session = newSession(deps, context.projectId);
    const counted = [known.cleared, known.address, networkIdOf(context)];
    const params = [known.id, stored, better, session.id, session.hash, ...counted];
    // Existing users can still sign in when the project is too full for new ones.
    const user = await deps.store.addToReserve<User>(context, signingIn, params, lockById(known.id));
    // The user was banned or deleted, or got another password, while this one was hashed.
    if (!user) throw errors.invalidCredentials();
    return { user, session: await toSession(deps, context, user, session) };
  } finally {
    reservation.release();
  }
}

const signingIn = `
  with allowed as (
    select users.id from auth.users join auth.passwords on passwords.user_id = users.id
    where users.id = $1::uuid and passwords.hash = $2 and users.banned_at is null
  ), touched as (
    update auth.users set last_sign_in_at = now() from allowed where users.id = allowed.id returning users.*
  ), better as (
    update auth.passwords set hash = $3 where user_id = (select id from allowed) and $3::text is not null
  ), session as (${insertSession('allowed', '$4', '$5')}),
  old as (${dropOldSessions('allowed')}),
  forgiven as (delete from auth.attempts where id = $6::bytea and exists (select from allowed)),
  given_back as (${refund('address', '$7')} and exists (select from allowed)),
  known_network as (${rememberNetwork('allowed', '$8')}),
  old_networks as (${dropOldNetworks('allowed')})
  select ${userJson('touched')} from touched`;

/** One sign-in in 128 also deletes rate limits that no longer count anything. */
function tidyOccasionally({ store, onError }: UserDeps, context: AuthContext): void {
  if (Math.random() < 1 / 128) store.ask(context, deleteFullBuckets, []).catch(onError);
}
