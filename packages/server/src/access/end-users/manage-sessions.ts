// Sessions of a user, for keys that may manage the project. sessions.ts is what users do with their own.
import type { UserSession } from '@rowhouse/api';
import { errors } from '../../errors/errors.ts';
import { endActingOf, listActingIds } from './act-as.ts';
import type { AuthContext } from './auth-context.ts';
import type { UserDeps } from './deps.ts';
import { isUserId } from './manage.ts';
import { lockById } from './store.ts';

/** Newest first. */
export async function listUserSessions(
  deps: UserDeps,
  context: AuthContext,
  userId: string,
): Promise<UserSession[]> {
  const found = isUserId(userId)
    ? await deps.store.ask<Omit<UserSession, 'is_acting'>[]>(context, listing, [userId])
    : null;
  if (!found) throw errors.userNotFound();
  if (found.length === 0) return [];
  const acting = new Set(await listActingIds(deps.control, context.projectId, userId));
  return found.map((session) => ({ ...session, is_acting: acting.has(session.id) }));
}

const time = (column: string) => `to_char(sessions.${column}, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;
const listing = `
  select coalesce(
    json_agg(json_build_object('id', sessions.id, 'created_at', ${time('created_at')},
      'refreshed_at', ${time('refreshed_at')}, 'expires_at', ${time('expires_at')})
      order by sessions.created_at desc, sessions.id) filter (where sessions.id is not null), '[]')
  from auth.users left join auth.sessions on sessions.user_id = users.id and sessions.expires_at > now()
  where users.id = $1::uuid group by users.id`;

/** Ends one session, or all if `sessionId` is null. Returns how many were live. */
export async function endUserSessions(
  deps: UserDeps,
  context: AuthContext,
  userId: string,
  sessionId: string | null,
): Promise<number> {
  if (!isUserId(userId)) throw errors.userNotFound();
  if (sessionId !== null && !isUserId(sessionId)) throw errors.userSessionNotFound();
  const ended = await deps.store.ask<Ended[]>(context, ending, [userId, sessionId], lockById(userId));
  if (!ended) throw errors.userNotFound();
  const live = ended.filter(({ is_live }) => is_live);
  if (sessionId !== null && live.length === 0) throw errors.userSessionNotFound();
  // The session is what the token depends on; this only completes the record.
  await endActingOf(
    deps.control,
    context.projectId,
    live.map(({ id }) => id),
  );
  return live.length;
}

type Ended = { id: string; is_live: boolean };
const ending = `
  with ended as (
    delete from auth.sessions where user_id = $1::uuid and ($2::uuid is null or id = $2::uuid)
    returning id, expires_at > now() as is_live)
  select (select coalesce(json_agg(ended), '[]') from ended) from auth.users where id = $1::uuid`;
