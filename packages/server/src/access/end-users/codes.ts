// One-time codes: to set a new password when the old one is lost, and to verify an e-mail. A code goes to the
// application (in the response, for a key that may manage the project) or out by mail or webhook, but never to a
// browser.

import type { Recover, User, Verify } from '@rowhouse/api';
import { errors } from '../../errors/errors.ts';
import { sql } from '../../postgres/sql.ts';
import { codeHours } from '../../settings/limits/end-users.ts';
import { readEmail } from '../mail/emails.ts';
import type { UserMessage } from '../mail/mail-texts.ts';
import type { AuthContext } from './auth-context.ts';
import type { UserDeps } from './deps.ts';
import { dropOldNetworks, networkIdOf, rememberNetwork } from './known-networks.ts';
import { hashNew } from './new-passwords.ts';
import { hashCode, isCode, makeCode } from './one-time-codes.ts';
import { clearedByNewPassword, newcomerOf } from './password-attempts.ts';
import { attemptId, count, waitFor } from './rate-limits.ts';
import { insertSession, newSession, type SignedIn, toBytea, toSession } from './sessions.ts';
import { lockByCode, lockByEmail, userJson } from './store.ts';

type Kind = 'recovery' | 'verification';

/** Returned to the application, or sent to the user if there is one. */
export type Issued = { code: string; expires_at: string } | { sent: true };

export async function recover(
  deps: UserDeps,
  context: AuthContext,
  input: Recover,
): Promise<Issued | SignedIn> {
  const { code, email, password, send } = input;
  if (code === undefined) {
    if (password !== undefined) throw ambiguous('recovery');
    return issue(deps, context, 'recovery', email, send);
  }
  if (email !== undefined || send !== undefined) throw ambiguous('recovery');
  if (password === undefined) throw errors.invalidRequest([{ path: 'password', problem: 'is required' }]);
  const emailKey = await checkCode(deps, context, 'recovery', code);
  const hash = await hashNew(deps, context, password);
  const session = newSession(deps, context.projectId);
  const used = toBytea(hashCode(code));
  const params = [
    used,
    hash,
    session.id,
    session.hash,
    clearedByNewPassword(context, emailKey),
    networkIdOf(context),
  ];
  const user = await deps.store.ask<User>(context, recovering, params, lockByCode(used));
  if (!user) throw errors.invalidCode();
  return { user, session: await toSession(deps, context, user, session) };
}

export async function verify(
  deps: UserDeps,
  context: AuthContext,
  input: Verify,
): Promise<Issued | { user: User }> {
  const { code, email, send } = input;
  if (code === undefined) return issue(deps, context, 'verification', email, send);
  if (email !== undefined || send !== undefined) throw ambiguous('verification');
  const hash = isCode(code) ? toBytea(hashCode(code)) : null;
  const user = hash && (await deps.store.ask<User>(context, verifying, [hash], lockByCode(hash)));
  if (!user) throw errors.invalidCode();
  return { user };
}

/** One endpoint issues and uses codes: this request asks for neither, or for both. */
function ambiguous(kind: Kind) {
  const use = kind === 'recovery' ? '"code" and "password"' : '"code"';
  return errors.invalidRequest([
    { path: '', problem: `send "email" to request a code, or ${use} to use one` },
  ]);
}

type Found = { wait: number | null; user: User | null; expiresAt: string | null };

async function issue(
  deps: UserDeps,
  context: AuthContext,
  kind: Kind,
  typed: string | undefined,
  send: boolean | undefined,
): Promise<Issued> {
  if (typed === undefined) throw ambiguous(kind);
  const email = readEmail(typed);
  const isHandedOver = context.mayManage && send !== true;
  if (!isHandedOver && !deps.delivery.isConfigured) {
    throw errors.forbidden(
      'This service does not send mail, so only a key with the scope "manage" can get a code.',
      'Request the code from your server with such a key, and send it to the user. Or the operator sets ROWHOUSE_SMTP_URL or ROWHOUSE_WEBHOOK_URL.',
    );
  }
  const code = makeCode();
  const params = [
    toBytea(hashCode(code)),
    kind,
    email.key,
    attemptId('code', email.key),
    newcomerOf(context),
  ];
  const found = await deps.store.ask<Found>(
    context,
    issuing(codeHours[kind]),
    params,
    lockByEmail(email.key),
  );
  if (found?.wait) throw errors.rateLimited('Too many codes were requested.', found.wait);
  const { user = null, expiresAt = null } = found ?? {};
  if (isHandedOver) {
    if (!user || !expiresAt) throw errors.userNotFound('The project has no user with this email address.');
    return { code, expires_at: expiresAt };
  }
  // The response does not reveal whether the user exists, and neither does its timing.
  if (user && expiresAt)
    sendLater(deps, context, { kind, email: user.email, code, expiresAt: new Date(expiresAt) });
  return { sent: true };
}

/** Only one code of a kind is valid at a time. */
function issuing(hours: number): string {
  return `
  with by_address as (${count('newcomer', '$5')}),
  by_account as (${count('code', '$4', '($5::bytea is null or exists (select from by_address))')}),
  found as (
    select * from auth.users where email_key = $3 and banned_at is null and exists (select from by_account)
  ), replaced as (
    delete from auth.codes using found where codes.user_id = found.id and codes.kind = $2
  ), made as (
    insert into auth.codes (hash, user_id, kind, email_key, expires_at)
    select $1::bytea, id, $2, email_key, now() + interval '${hours} hours' from found
    returning expires_at
  )
  select json_build_object(
    'wait', case when not exists (select from by_account)
                 then greatest(1, case when $5::bytea is not null and not exists (select from by_address)
                                       then ${waitFor('newcomer', '$5')} else ${waitFor('code', '$4')} end) end,
    'user', (select ${userJson('found')} from found),
    'expiresAt', (select to_char(expires_at, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') from made))`;
}

/** Checked before the expensive password hash. Returns the key of the e-mail for which the code was issued. */
async function checkCode(
  { store }: UserDeps,
  context: AuthContext,
  kind: Kind,
  code: string,
): Promise<string> {
  const found =
    isCode(code) && (await store.ask<string>(context, findingCode, [toBytea(hashCode(code)), kind]));
  if (!found) throw errors.invalidCode();
  return found;
}

const findingCode = `select to_json(email_key) from auth.codes where hash = $1::bytea and kind = $2 and expires_at > now()`;

const used = (kind: Kind) => `
  used as (
    delete from auth.codes where hash = $1::bytea and kind = '${kind}' and expires_at > now() returning user_id, email_key
  ), target as (
    select users.id from auth.users join used on used.user_id = users.id and used.email_key = users.email_key
    where users.banned_at is null
  )`;

/** The new password ends all sessions and clears the attempts that others have used up. */
const recovering = `
  with ${used('recovery')}, changed as (
    update auth.users set last_sign_in_at = now(), updated_at = now() from target where users.id = target.id
    returning users.*
  ), password as (
    insert into auth.passwords (user_id, hash) select id, $2 from target
    on conflict (user_id) do update set hash = excluded.hash
  ), ended as (
    delete from auth.sessions using target where sessions.user_id = target.id
  ), forgiven as (
    delete from auth.attempts where id = any ($5::bytea[]) and exists (select from target)
  ), session as (${insertSession('target', '$3', '$4')}),
  known_network as (${rememberNetwork('target', '$6')}),
  old_networks as (${dropOldNetworks('target')})
  select ${userJson('changed')} from changed`;

const verifying = `
  with ${used('verification')}, changed as (
    update auth.users set email_verified_at = now(), updated_at = now() from target where users.id = target.id
    returning users.*
  )
  select ${userJson('changed')} from changed`;

/** A stolen token is enough to change the e-mail, so the owner of the old address is notified if mail is configured. */
export function notifyOldAddress(deps: UserDeps, context: AuthContext, email: string): void {
  if (!deps.delivery.isConfigured) return;
  const notify = async () => {
    const params = [attemptId('notice', readEmail(email).key)];
    const counted = await deps.store.ask<number>(context, noticing, params);
    if (counted) sendLater(deps, context, { kind: 'email_changed', email, code: null, expiresAt: null });
  };
  notify().catch(deps.onError);
}

const noticing = `with counted as (${count('notice', '$1')}) select 1 from counted`;

type Letter = Omit<UserMessage, 'project'>;

function sendLater(deps: UserDeps, { projectId, accountId, slug }: AuthContext, letter: Letter): void {
  const send = async () => {
    const [project] = await deps.control.query<{ name: string }>(
      sql`select name from projects where id = ${projectId}`,
    );
    await deps.delivery.send({ ...letter, project: { slug, name: project?.name ?? slug, accountId } });
  };
  send().catch(deps.onError);
}
