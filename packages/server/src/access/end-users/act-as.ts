// Acting as an end user: the holder of a key that may manage the project sees what row security lets this user see. Each
// token is recorded in the control database, is valid for minutes and with the key that asked for it, and has a session
// of its own in the project, so that it ends at once when the user is banned or deleted.

import { randomUUID } from 'node:crypto';
import type { ActAs, ActingSession, User } from '@rowhouse/api';
import type { Control } from '../../control/control.ts';
import { errors } from '../../errors/errors.ts';
import type { Caller } from '../../keys/caller.ts';
import { sql } from '../../postgres/sql.ts';
import type { ActingUser } from '../../servers/databases/login.ts';
import {
  actAsRecordDays,
  maxActAsPerMinute,
  maxActAsRecords,
  maxActAsSeconds,
} from '../../settings/limits/end-users.ts';
import { issuerOf } from './access-tokens.ts';
import { hashActingToken, makeActingToken } from './acting-tokens.ts';
import type { AuthContext } from './auth-context.ts';
import type { UserDeps } from './deps.ts';
import { getUser } from './manage.ts';
import { toBytea } from './sessions.ts';
import { lockById } from './store.ts';

export const anonymousId = 'anon';

export async function actAs(
  deps: UserDeps,
  context: AuthContext,
  caller: Caller,
  who: string,
  { expires_in: seconds = maxActAsSeconds }: ActAs,
): Promise<{ token: string; expires_at: string; acting: ActingSession }> {
  const user = who === anonymousId ? null : await getUser(deps, context, who);
  if (user?.banned_at) throw errors.userBanned();
  const token = makeActingToken();
  const id = randomUUID();
  // Recorded first: no token is ever valid without its record.
  const acting = await record(deps.control, { id, token, context, caller, user, seconds });
  if (user && !(await openSession(deps, context, id, user, seconds))) {
    await end(deps.control, context.projectId, id);
    throw errors.userNotFound();
  }
  return { token, expires_at: acting.expires_at, acting };
}

type Recorded = Readonly<{
  id: string;
  token: string;
  context: AuthContext;
  caller: Caller;
  user: User | null;
  seconds: number;
}>;

async function record(
  control: Control,
  { id, token, context, caller, user, seconds }: Recorded,
): Promise<ActingSession> {
  const [row] = await control.change<Row>(sql`
    with forgotten as (
      delete from acting_tokens where expires_at < now() and id = any (array(
        select id from acting_tokens where project_id = ${context.projectId}
        order by created_at desc, id offset ${maxActAsRecords - 1}::int))
    )
    insert into acting_tokens (id, hash, project_id, key_id, user_id, user_email, expires_at)
    select ${id}::uuid, ${hashActingToken(token)}::bytea, ${context.projectId}::text, ${caller.keyId}::text, ${user?.id ?? null}::uuid,
           ${user?.email ?? null}::text, now() + make_interval(secs => ${seconds}::int)
    where (
      select count(*) from acting_tokens
      where project_id = ${context.projectId} and created_at > now() - interval '1 minute') < ${maxActAsPerMinute}
    returning id, key_id as "keyId", null as "keyName", user_id as "userId", user_email as "userEmail",
              created_at as "createdAt", expires_at as "expiresAt", used_at as "usedAt", ended_at as "endedAt"`);
  if (!row)
    throw errors.rateLimited(`More than ${maxActAsPerMinute} tokens were requested within a minute.`, 60);
  return toActing(row);
}

/** A refresh token whose hash is random does not exist: the session cannot be prolonged. */
async function openSession(
  { store }: UserDeps,
  context: AuthContext,
  id: string,
  user: User,
  seconds: number,
): Promise<boolean> {
  const hash = toBytea(hashActingToken(makeActingToken()));
  const params = [id, user.id, hash, String(seconds)];
  return (await store.addToReserve<string>(context, opening, params, lockById(user.id))) !== null;
}

const opening = `
  with expired as (delete from auth.sessions where user_id = $2::uuid and expires_at <= now()),
  opened as (
    insert into auth.sessions (id, user_id, token_hash, expires_at)
    select $1::uuid, users.id, $3::bytea, now() + make_interval(secs => $4::float8)
    from auth.users where users.id = $2::uuid and banned_at is null returning id)
  select to_json(id) from opened`;

/** Throws unless the token is valid now, for this project and with this key. PostgreSQL checks the user's session. */
export async function actingUserBy(
  { control }: Pick<UserDeps, 'control'>,
  { id: projectId, slug }: { id: string; slug: string },
  { keyId }: Caller,
  token: string,
): Promise<ActingUser> {
  const [row] = await control.query<Row & { iat: number; exp: number }>(sql`
    with found as (
      select * from acting_tokens
      where hash = ${hashActingToken(token)} and project_id = ${projectId} and key_id = ${keyId}
        and ended_at is null and expires_at > now()
    ), noted as (
      update acting_tokens set used_at = now() from found
      where acting_tokens.id = found.id and (found.used_at is null or found.used_at < now() - interval '10 s')
    )
    select id, user_id as "userId", user_email as "userEmail",
           extract(epoch from created_at)::int as iat, extract(epoch from expires_at)::int as exp
    from found`);
  if (!row) {
    throw errors.invalidToken(
      'This token for acting as a user is invalid, expired or ended, or belongs to another API key.',
      'Get a new one with POST …/auth/users/:id/act-as, and send it with the same API key.',
    );
  }
  const { userId, iat, exp } = row;
  if (userId === null) return { role: 'anon' };
  // PostgreSQL adds the e-mail address and the role as they are now. Policies and triggers can see who really acts.
  const claims = { sub: userId, iss: issuerOf(slug), iat, exp, sid: row.id, act: { sub: keyId } };
  return {
    role: 'authenticated',
    sessionId: row.id,
    userId,
    claims: JSON.stringify(claims),
    email: '',
    claimedRole: '',
  };
}

export async function listActing(
  { control }: Pick<UserDeps, 'control'>,
  { projectId }: AuthContext,
  { limit = 50, page = 1 }: { limit?: number; page?: number },
): Promise<{ acting: ActingSession[]; page: number; limit: number; has_more: boolean }> {
  const rows = await control.query<Row>(sql`
    select acting_tokens.id, key_id as "keyId", keys.name as "keyName", user_id as "userId",
           user_email as "userEmail", acting_tokens.created_at as "createdAt",
           acting_tokens.expires_at as "expiresAt", used_at as "usedAt", ended_at as "endedAt"
    from acting_tokens left join keys on keys.id = key_id
    where acting_tokens.project_id = ${projectId}
    order by acting_tokens.created_at desc, acting_tokens.id
    limit ${limit + 1} offset ${(page - 1) * limit}`);
  return { acting: rows.slice(0, limit).map(toActing), page, limit, has_more: rows.length > limit };
}

/** Ends a token before its time. */
export async function endActing(deps: UserDeps, context: AuthContext, id: string): Promise<void> {
  const isKnown = /^[0-9a-f-]{36}$/.test(id) && (await end(deps.control, context.projectId, id));
  if (!isKnown) throw errors.userNotFound('The project has no such token for acting as a user.');
  await deps.store.ask(context, 'delete from auth.sessions where id = $1::uuid returning to_json(id)', [id]);
}

async function end(control: Control, projectId: string, id: string): Promise<boolean> {
  const rows = await control.change(sql`
    update acting_tokens set ended_at = coalesce(ended_at, now())
    where id::text = ${id} and project_id = ${projectId} returning id`);
  return rows.length > 0;
}

/** The ids of the tokens with which somebody else acts as the user. */
export async function listActingIds(control: Control, projectId: string, userId: string): Promise<string[]> {
  const rows = await control.query<{ id: string }>(sql`
    select id from acting_tokens
    where project_id = ${projectId} and user_id = ${userId}::uuid and expires_at > now()`);
  return rows.map(({ id }) => id);
}

/** Records the end of tokens whose sessions have ended. Ids of other sessions are ignored. */
export async function endActingOf(
  control: Control,
  projectId: string,
  ids: readonly string[],
): Promise<void> {
  if (ids.length === 0) return;
  await control.change(sql`
    update acting_tokens set ended_at = coalesce(ended_at, now())
    where project_id = ${projectId} and id = any (${ids}::uuid[]) and expires_at > now()`);
}

/** Part of the background work. */
export async function forgetOldActing(control: Control): Promise<void> {
  await control.query(sql`
    delete from acting_tokens where created_at < now() - make_interval(days => ${actAsRecordDays})`);
}

type Row = {
  id: string;
  keyId: string;
  keyName: string | null;
  userId: string | null;
  userEmail: string | null;
  createdAt: Date;
  expiresAt: Date;
  usedAt: Date | null;
  endedAt: Date | null;
};

function toActing(row: Row): ActingSession {
  const { id, userId, userEmail } = row;
  return {
    id,
    user: userId === null ? null : { id: userId, email: userEmail ?? '' },
    key: { id: row.keyId, name: row.keyName },
    created_at: row.createdAt.toISOString(),
    expires_at: row.expiresAt.toISOString(),
    used_at: row.usedAt?.toISOString() ?? null,
    ended_at: row.endedAt?.toISOString() ?? null,
  };
}
