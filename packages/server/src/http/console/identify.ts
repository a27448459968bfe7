// Identifies the caller of a console request by its session. API keys do not count under /console, and sessions not
// anywhere else.
import { consoleTokenHeader } from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { type ConsoleSession, findSession } from '../../access/people/sessions.ts';
import { errors } from '../../errors/errors.ts';
import { looksLikeKey } from '../../keys/form.ts';
import type { Deps } from '../deps.ts';
import { readBearer } from '../request/caller.ts';
import { readCookies } from './cookies.ts';
import { checkFetch, checkHost, type Reached } from './request-checks.ts';
import { securityHeaders } from './security-headers.ts';

declare module 'fastify' {
  interface FastifyRequest {
    reached: Reached | null;
    consoleSession: ConsoleSession | null;
  }
  interface FastifyContextConfig {
    /** false: other origins may not read the response, whatever ROWHOUSE_CORS_ORIGINS says. */
    cors?: false;
  }
}

/** Call once, before any scope of the console is registered. */
export function decorateForConsole(app: FastifyInstance): void {
  app.decorateRequest('reached', null);
  app.decorateRequest('consoleSession', null);
}

/** For a scope all of whose requests come from the page. Before the body is read. */
export function acceptOnlyConsole(app: FastifyInstance, hosts: readonly string[]): void {
  app.addHook('onRequest', async (request, reply) => {
    reply.headers(securityHeaders);
    request.reached = checkHost(request.headers.host, hosts);
    checkFetch(request, request.reached);
  });
  app.addHook('onRoute', (route) => {
    route.config = { ...route.config, cors: false };
    route.schema = { ...route.schema, hide: true };
  });
}

export function reachedBy({ reached }: FastifyRequest): Reached {
  if (!reached) throw new Error('A route outside of the console asked for its host.');
  return reached;
}

export function sessionOf({ consoleSession }: FastifyRequest): ConsoleSession {
  if (!consoleSession) throw new Error('A route without a session asked for one.');
  return consoleSession;
}

/** Throws unless the request has both halves of a session. `isUse`: whether the session goes on for longer. */
export async function identifySession(
  request: FastifyRequest,
  deps: Deps,
  { isUse = true } = {},
): Promise<void> {
  const { headers, routeOptions } = request;
  if (headers['x-api-key'] !== undefined)
    throw errors.invalidRequest([{ path: 'X-API-Key', problem: 'does not count under /console' }]);
  const accessToken = readBearer(headers.authorization);
  if (accessToken !== null && (looksLikeKey(accessToken) || !routeOptions.config.acceptsToken)) {
    throw errors.invalidRequest([
      { path: 'Authorization', problem: "must be a user's access token, on an endpoint that accepts one" },
    ]);
  }
  const token = headers[consoleTokenHeader];
  if (typeof token !== 'string') throw errors.sessionRequired();
  const session = await findSession(deps, token, readCookies(request, reachedBy(request)), isUse);
  if (!session) throw errors.sessionRequired();
  request.consoleSession = session;
  request.caller = session.caller;
  request.accessToken = accessToken;
}

/** For the routes of the API: the own profile can be used without. */
export function requireUsable(request: FastifyRequest): void {
  const { suspendedBecause, lacksSecondFactor } = sessionOf(request);
  if (suspendedBecause !== null) throw errors.accountSuspended(suspendedBecause);
  if (lacksSecondFactor) throw errors.secondFactorRequired();
}

/** For a hook after validation, and before a stored response is returned again. */
export function requireConfirmation({ now }: Deps) {
  return async (request: FastifyRequest): Promise<void> => {
    const { showsSecret = false } = request.routeOptions.config;
    const isSecret = typeof showsSecret === 'function' ? showsSecret(request) : showsSecret;
    if (isSecret && sessionOf(request).confirmedUntil.getTime() <= now()) throw errors.confirmationRequired();
  };
}
