// What signed-in users do with their own account. manage.ts is the administrator's side.
import type { ChangeOwnUser, User } from '@rowhouse/api';
import { errors, RowhouseError } from '../../errors/errors.ts';
import { readNewEmail } from '../mail/emails.ts';
import { checkGiven, checkPassword } from '../passwords/passwords.ts';
import type { Claims } from './access-tokens.ts';
import type { AuthContext } from './auth-context.ts';
import { type Columns, changeColumns, type Hashes } from './change.ts';
import { notifyOldAddress } from './codes.ts';
import { readData, readRole } from './data.ts';
import type { UserDeps } from './deps.ts';
import { refuseCommon } from './new-passwords.ts';
import { newcomerOf, tooManyAttempts } from './password-attempts.ts';
import { attemptId, count, waitFor } from './rate-limits.ts';
import { removeUser } from './remove.ts';
import { liveUser } from './sessions.ts';
import { userJson } from './store.ts';

export async function getOwnUser(
  { store }: UserDeps,
  context: AuthContext,
  { sid, sub }: Claims,
): Promise<User> {
  const user = await store.ask<User>(context, reading, [sid, sub]);
  if (!user) throw errors.sessionEnded();
  return user;
}

const reading = `with live as (${liveUser('$1', '$2')}) select ${userJson('live')} from live`;

/** A new password ends all other sessions; a new e-mail is not verified. */
export async function changeOwnUser(
  deps: UserDeps,
  context: AuthContext,
  claims: Claims,
  input: ChangeOwnUser,
): Promise<User> {
  // Only for its check of publishable keys: users cannot change their own role.
  readRole(context, input.data);
  const data = input.data === undefined ? null : readData(input.data);
  if ((input.password === undefined) !== (input.current_password === undefined)) {
    const path = input.password === undefined ? 'password' : 'current_password';
    throw errors.invalidRequest([
      { path, problem: 'is required: a new password needs "password" and "current_password"' },
    ]);
  }
  const { password, current_password: current } = input;
  const before = await getOwnUser(deps, context, claims);
  const email = input.email === undefined ? null : readNewEmail(input.email, before.email);
  if (email && context.isPublic) await countNewEmail(deps, context);
  const hashes =
    password === undefined || current === undefined
      ? null
      : await changePassword(deps, context, claims, current, password);
  const columns: Columns = { email, data, role: null, isVerified: email ? false : null, isBanned: null };
  const user = await changeColumns(deps, context, before, columns, hashes, claims.sid);
  if (email && user.email !== before.email) notifyOldAddress(deps, context, before.email);
  return user;
}

/** Limited like sign-up: the response reveals whether an e-mail is taken, and a free one is taken by asking. */
async function countNewEmail({ store }: UserDeps, context: AuthContext): Promise<void> {
  const params = [newcomerOf(context)];
  const found = await store.ask<{ wait: number | null }>(context, counting, params);
  if (found?.wait) throw errors.rateLimited('Too many email changes came from this IP address.', found.wait);
}

const counting = `
  with counted as (${count('newcomer', '$1')})
  select json_build_object('wait', case when not exists (select from counted) then ${waitFor('newcomer', '$1')} end)`;

async function changePassword(
  { hashing, store }: UserDeps,
  context: AuthContext,
  { sid, sub }: Claims,
  current: string,
  password: string,
): Promise<Hashes> {
  checkPassword(password);
  checkGiven(current, 'current_password');
  const reservation = hashing.reserve(context.projectId, context.accountId);
  try {
    const known = await store.ask<{ wait: number | null; hash: string | null; refuseCommon: boolean }>(
      context,
      beforeChange,
      [sid, sub, attemptId('session', sid)],
    );
    if (!known) throw errors.sessionEnded();
    if (known.wait) throw tooManyAttempts(known.wait);
    if (known.refuseCommon) refuseCommon(password);
    const { matches } = await reservation.verify(current, known.hash);
    if (!matches || known.hash === null) throw wrongPassword();
    return { old: known.hash, fresh: await reservation.hash(password) };
  } finally {
    reservation.release();
  }
}

const beforeChange = `
  with live as (${liveUser('$1', '$2')}),
  counted as (${count('session', '$3', 'exists (select from live)')})
  select json_build_object(
    'wait', case when not exists (select from counted) then ${waitFor('session', '$3')} end,
    'hash', (select hash from auth.passwords where user_id = live.id),
    'refuseCommon', (select refuse_common_passwords from auth.settings))
  from live`;

function wrongPassword() {
  return new RowhouseError('invalid_credentials', 'current_password is wrong.', {
    hint: 'Reset a forgotten password with POST …/auth/recover.',
  });
}

export async function deleteOwnUser(deps: UserDeps, context: AuthContext, claims: Claims): Promise<User> {
  const user = await getOwnUser(deps, context, claims);
  return removeUser(deps, context, user);
}
