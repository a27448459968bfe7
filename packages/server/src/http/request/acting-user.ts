// The end user that a request acts for, taken from the access token that comes with its API key. Without a token, a
// publishable key acts anonymously.
import type { FastifyRequest } from 'fastify';
import { actingUserBy } from '../../access/end-users/act-as.ts';
import { isActingToken } from '../../access/end-users/acting-tokens.ts';
import { readClaims } from '../../access/end-users/sessions.ts';
import type { Caller } from '../../keys/caller.ts';
import { lookUp } from '../../query/look-up.ts';
import {
  type ActingUser,
  asAnonymous,
  asUser,
  type ProjectLogin,
} from '../../servers/databases/provision.ts';
import type { Deps } from '../deps.ts';
import { callerOf } from './caller.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** With a valid access token: as that user. With a publishable key alone: as `anon`. Otherwise null. */
    login: ProjectLogin | null;
  }
}

type Project = Readonly<{ id: string; slug: string }>;

/** For a route's onRequest hook: it runs before the body is read and before a repeated request is answered. */
export function admitActingUsers(deps: Deps) {
  return async (request: FastifyRequest): Promise<void> => {
    const caller = callerOf(request);
    if (request.accessToken === null && caller.kind !== 'publishable') return;
    const { slug } = request.params as { slug: string };
    const project = await deps.logins.of(caller, slug);
    if (request.accessToken === null) request.login = actingAs(caller, project);
    else
      request.login = asUser(
        project,
        await actingUserOf(deps, caller, { id: project.id, slug }, request.accessToken),
      );
  };
}

/** A publishable key without an access token never acts as the project itself, on any code path. */
export function actingAs(caller: Caller, project: ProjectLogin): ProjectLogin {
  return caller.kind === 'publishable' && !project.actingUser ? asAnonymous(project) : project;
}

/** A token can outlive its session. Every statement checks that, but a stored response is replayed without a statement. */
export function checkSession(deps: Deps) {
  return async ({ login }: FastifyRequest): Promise<void> => {
    if (login?.actingUser?.role === 'authenticated') await lookUp(deps.query, login, 'select 1', []);
  };
}

/** Throws unless the token was issued for this project and has not expired. PostgreSQL checks whether its session still exists. */
async function actingUserOf(
  { users }: Deps,
  caller: Caller,
  project: Project,
  token: string,
): Promise<ActingUser> {
  if (isActingToken(token)) return actingUserBy(users, project, caller, token);
  const claims = await readClaims(users, { projectId: project.id, slug: project.slug }, token);
  const { sid: sessionId, sub: userId, email, role: claimedRole } = claims;
  return { role: 'authenticated', sessionId, userId, claims: JSON.stringify(claims), email, claimedRole };
}
