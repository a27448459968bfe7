// The end user that a request acts for, out of the access token beside its API key; without one a publishable key acts
// for nobody that is known.
import type { FastifyRequest } from 'fastify';
import { type ActingUser, asAnonymous, asUser, type ProjectLogin } from '../engine/provision.ts';
import type { Caller } from '../keys/caller.ts';
import { ask } from '../query/look-up.ts';
import { readClaims } from '../users/sessions.ts';
import { callerOf } from './caller.ts';
import type { Deps } from './deps.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Of a request with an access token, which has been found good: as that user. Of one with a publishable key alone: as `anon`. */
    login: ProjectLogin | null;
  }
}

type Project = Readonly<{ id: string; slug: string }>;

/** For a route's onRequest: before its body is read, and before a repeat is answered. */
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
        await actingUserOf(deps, { id: project.id, slug }, request.accessToken),
      );
  };
}

/** Whatever way a request comes, a publishable key without a user's token never acts as the project itself. */
export function actingAs(caller: Caller, project: ProjectLogin): ProjectLogin {
  return caller.kind === 'publishable' && !project.actingUser ? asAnonymous(project) : project;
}

/** A token can outlive its session. Whatever runs looks at that by itself; an answer that is kept does not run. */
export function checkSession(deps: Deps) {
  return async ({ login }: FastifyRequest): Promise<void> => {
    if (login?.actingUser?.role === 'authenticated') await ask(deps.query, login, 'select 1', []);
  };
}

/** Throws unless the token is the project's own and good now. Whether its session still is, PostgreSQL knows. */
async function actingUserOf({ users }: Deps, project: Project, token: string): Promise<ActingUser> {
  const claims = await readClaims(users, { projectId: project.id, slug: project.slug }, token);
  return { role: 'authenticated', sessionId: claims.sid, userId: claims.sub, claims: JSON.stringify(claims) };
}
