// The end user that a request acts for, out of the access token beside its API key.
import type { FastifyRequest } from 'fastify';
import { asVisitor, type ProjectLogin, type Visitor } from '../engine/provision.ts';
import { ask } from '../query/run.ts';
import { readClaims } from '../users/sessions.ts';
import { callerOf } from './caller.ts';
import type { Deps } from './deps.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Of a request with an access token, which has been found good: as that user. */
    login: ProjectLogin | null;
  }
}

type Project = Readonly<{ id: string; slug: string }>;

/** For a route's onRequest: before its body is read, and before a repeat is answered. */
export function admitVisitors(deps: Deps) {
  return async (request: FastifyRequest): Promise<void> => {
    if (request.accessToken === null) return;
    const { slug } = request.params as { slug: string };
    const project = await deps.logins.of(callerOf(request), slug);
    request.login = asVisitor(project, await visitorOf(deps, { id: project.id, slug }, request.accessToken));
  };
}

/** A token can outlive its session. Whatever runs looks at that by itself; an answer that is kept does not run. */
export function checkSession(deps: Deps) {
  return async ({ login }: FastifyRequest): Promise<void> => {
    if (login?.visitor) await ask(deps.query, login, 'select 1', []);
  };
}

/** Throws unless the token is the project's own and good now. Whether its session still is, PostgreSQL knows. */
async function visitorOf({ users }: Deps, project: Project, token: string): Promise<Visitor> {
  const claims = await readClaims(users, { projectId: project.id, slug: project.slug }, token);
  return { sessionId: claims.sid, userId: claims.sub, claims: JSON.stringify(claims) };
}
