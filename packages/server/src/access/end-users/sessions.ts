// Sessions of end users: an access token and a refresh token, tied to a row of auth.sessions. Each use checks the row,
// so deleting it invalidates both tokens on every process.

import { randomUUID } from 'node:crypto';
import type { Session, SignOut, User } from '@rowhouse/api';
import { errors } from '../../errors/errors.ts';
import type { KeyRing } from '../../keys/verify.ts';
import { repeatedRefreshSeconds, sessionsPerUser, userSessionDays } from '../../settings/limits/end-users.ts';
import { type Claims, issuerOf, signToken, tokenLifetimeS } from './access-tokens.ts';
import type { AuthContext } from './auth-context.ts';
import type { UserDeps } from './deps.ts';
import { hashRefreshToken, makeRefreshToken, readRefreshToken } from './refresh-tokens.ts';
import { type Place, userJson } from './store.ts';

export type SignedIn = { user: User; session: Session };

/** A session that is about to be inserted. */
export type NewSession = Readonly<{ id: string; refreshToken: string; hash: string }>;

export function newSession({ refreshKey }: Pick<UserDeps, 'refreshKey'>, projectId: string): NewSession {
  const id = randomUUID();
  const refreshToken = makeRefreshToken(refreshKey, projectId, { sessionId: id, generation: 0 });
  return { id, refreshToken, hash: toBytea(hashRefreshToken(refreshToken)) };
}

/** For a `with` clause: inserts a session for the user in the relation `owner`; `id` and `hash` are parameters. */
export function insertSession(owner: string, id: string, hash: string): string {
  return `
    insert into auth.sessions (id, user_id, token_hash, expires_at)
    select ${id}::uuid, ${owner}.id, ${hash}::bytea, now() + interval '${userSessionDays} days' from ${owner}`;
}

/** For a `with` clause next to `insertSession`: drops expired sessions, and the oldest if there are too many. */
export function dropOldSessions(owner: string): string {
  return `
    delete from auth.sessions where user_id = (select id from ${owner})
      and (expires_at <= now() or id = any (array(
        select id from auth.sessions where user_id = (select id from ${owner})
        order by created_at desc offset ${sessionsPerUser - 1})))`;
}

export async function toSession(
  { keyRing, now }: Pick<UserDeps, 'keyRing' | 'now'>,
  { projectId, slug }: Pick<AuthContext, 'projectId' | 'slug'>,
  user: User,
  { id, refreshToken }: Pick<NewSession, 'id' | 'refreshToken'>,
): Promise<Session> {
  const iat = Math.floor(now() / 1000);
  const exp = iat + tokenLifetimeS;
  const { id: sub, email, role } = user;
  const claims: Claims = { sub, email, role, iss: issuerOf(slug), iat, exp, sid: id };
  return {
    access_token: signToken(await currentKey(keyRing, projectId), claims),
    token_type: 'bearer',
    expires_in: tokenLifetimeS,
    expires_at: new Date(exp * 1000).toISOString(),
    refresh_token: refreshToken,
  };
}

async function currentKey(keyRing: KeyRing, projectId: string) {
  const keys = await keyRing.signingKeys(projectId);
  const present = keys.find(({ expiresAt }) => expiresAt === null);
  if (!present) throw new Error('The project has no key to sign with.');
  return present;
}

/** For a `with` clause: the user of a live session; `session` and `user` are parameters. */
export function liveUser(session: string, user: string): string {
  return `
    select users.* from auth.sessions join auth.users on users.id = sessions.user_id
    where sessions.id = ${session}::uuid and users.id = ${user}::uuid
      and sessions.expires_at > now() and users.banned_at is null`;
}

type Refreshed = { outcome: 'good' | 'reused' | 'gone'; user: User | null };

export async function refresh(deps: UserDeps, context: AuthContext, text: string): Promise<SignedIn> {
  const { store, refreshKey } = deps;
  const token = readRefreshToken(refreshKey, context.projectId, text);
  if (!token) throw badRefreshToken();
  const next = makeRefreshToken(refreshKey, context.projectId, {
    ...token,
    generation: token.generation + 1,
  });
  const hashes = [text, next].map((one) => toBytea(hashRefreshToken(one)));
  const found = await store.ask<Refreshed>(context, refreshing, [token.sessionId, ...hashes]);
  if (found?.outcome === 'reused') {
    throw errors.invalidToken(
      'This refresh token was already used. Its session was ended, because the token may have been stolen.',
      'Sign in again with POST …/auth/signin.',
    );
  }
  if (!found?.user) throw badRefreshToken();
  const session = { id: token.sessionId, refreshToken: next };
  return { user: found.user, session: await toSession(deps, context, found.user, session) };
}

const refreshing = `
  with found as (
    select *, token_hash = $3::bytea and refreshed_at > now() - interval '${repeatedRefreshSeconds} s' as is_repeated
    from auth.sessions where id = $1::uuid and expires_at > now() for update
  ), renewed as (
    update auth.sessions
    set token_hash = $3::bytea, refreshed_at = now(), expires_at = now() + interval '${userSessionDays} days'
    from found where sessions.id = found.id and found.token_hash = $2::bytea
    returning 1
  ), stolen as (
    delete from auth.sessions using found
    where sessions.id = found.id and found.token_hash <> $2::bytea and not found.is_repeated
    returning 1
  )
  select json_build_object(
    'outcome', case when exists (select from stolen) then 'reused' when exists (select from found) then 'good' else 'gone' end,
    'user', (select ${userJson('users')} from auth.users join found on found.user_id = users.id where banned_at is null))`;

export async function signOut(
  { store }: Pick<UserDeps, 'store'>,
  context: Place,
  { sid, sub }: Claims,
  scope: NonNullable<SignOut['scope']>,
): Promise<number> {
  const ended = await store.ask<number>(context, signingOut[scope], [sid, sub]);
  if (ended === null) throw errors.sessionEnded();
  return ended;
}

const signingOut = {
  this: endSessions(`id = $1::uuid`),
  others: endSessions(`id <> $1::uuid`),
  all: endSessions(`true`),
};

function endSessions(which: string): string {
  return `
    with live as (${liveUser('$1', '$2')}),
    ended as (delete from auth.sessions where user_id = (select id from live) and ${which} returning 1)
    select (select count(*) from ended) from live`;
}

function badRefreshToken() {
  return errors.invalidToken(
    'This refresh token is invalid, or its session has ended.',
    'Sign in again with POST …/auth/signin.',
  );
}

export function toBytea(bytes: Buffer): string {
  return `\\x${bytes.toString('hex')}`;
}
