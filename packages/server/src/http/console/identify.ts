// Identifies the caller of a console request by its session. API keys do not count under /console, and sessions not
// anywhere else.
import type { IncomingHttpHeaders } from 'node:http';
import { consoleTokenHeader } from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { type ConsoleSession, findSession } from '../../access/people/sessions.ts';
import { errors } from '../../errors/errors.ts';
import { looksLikeKey } from '../../keys/form.ts';
import type { Step } from '../data/data-request.ts';
import type { Deps } from '../deps.ts';
import { type AcceptsToken, readBearer } from '../request/caller.ts';
import { readCookies } from './cookies.ts';
import { checkFetch, checkHost, type Reached } from './request-checks.ts';
import { securityHeaders } from './security-headers.ts';

declare module 'fastify' {
  interface FastifyRequest {
    reached: Reached | null;
    consoleSession: ConsoleSession | null;
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
  const accessToken = readToken(headers, routeOptions.config.acceptsToken);
  request.consoleSession = await findSessionOf(deps, headers, reachedBy(request), isUse);
  request.caller = request.consoleSession.caller;
  request.accessToken = accessToken;
}

/** The same for requests for data, which come from the page and from nowhere else. */
export function identifyBySession(hosts: readonly string[]): Step {
  return (request) => {
    const { deps, route, exchange } = request;
    const { headers } = exchange;
    const reached = checkHost(headers.host, hosts);
    checkFetch(exchange, reached);
    request.accessToken = readToken(headers, route.acceptsToken);
    return findSessionOf(deps, headers, reached, true).then((session) => {
      request.caller = session.caller;
      requireUsable(session);
    });
  };
}

function readToken(headers: IncomingHttpHeaders, acceptsToken: AcceptsToken): string | null {
  if (headers['x-api-key'] !== undefined)
    throw errors.invalidRequest([{ path: 'X-API-Key', problem: 'does not count under /console' }]);
  const accessToken = readBearer(headers.authorization);
  if (accessToken !== null && (looksLikeKey(accessToken) || !acceptsToken)) {
    throw errors.invalidRequest([
      { path: 'Authorization', problem: "must be a user's access token, on an endpoint that accepts one" },
    ]);
  }
  return accessToken;
}

async function findSessionOf(
  deps: Deps,
  headers: IncomingHttpHeaders,
  reached: Reached,
  isUse: boolean,
): Promise<ConsoleSession> {
  const token = headers[consoleTokenHeader];
  if (typeof token !== 'string') throw errors.sessionRequired();
  const session = await findSession(deps, token, readCookies({ headers }, reached), isUse);
  if (!session) throw errors.sessionRequired();
  return session;
}

/** For the routes of the API: the own profile can be used without. */
export function requireUsable({ suspendedBecause, lacksSecondFactor }: ConsoleSession): void {
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
