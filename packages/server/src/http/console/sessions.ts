// Sessions of the console over HTTP: signing in and out, the list of sessions, confirmation.
import {
  ConsoleConfirm,
  ConsoleEndedResponse,
  ConsoleSessionResponse,
  ConsoleSessionsResponse,
  ConsoleSignedInResponse,
  ConsoleSignIn,
} from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { errors } from '../../errors.ts';
import type { Caller } from '../../keys/caller.ts';
import {
  type ConsoleSession,
  confirm,
  endSession,
  listSessions,
  type Proof,
  signIn,
} from '../../people/sessions.ts';
import type { Deps } from '../deps.ts';
import { clearCookie, readCookies, setCookie } from './cookies.ts';
import { identifySession, reachedBy, sessionOf } from './identify.ts';
import { openAttempts, whoTries } from './sign-in-attempts.ts';

const bodyLimit = 4 * 1024;
const maxUserAgent = 300;

/** The requests come from the page: the scope has checked that. */
export function sessionRoutes(app: FastifyInstance, deps: Deps): void {
  const attempts = openAttempts(deps.now);
  const onRequest = async (request: FastifyRequest) => identifySession(request, deps);

  app.post<{ Body: ConsoleSignIn }>(
    '/session',
    { bodyLimit, schema: { body: ConsoleSignIn, response: { 201: ConsoleSignedInResponse } } },
    async (request, reply): Promise<ConsoleSignedInResponse> => {
      const visitor = {
        address: request.ip,
        userAgent: printable(request.headers['user-agent']),
        cookies: readCookies(request, reachedBy(request)),
      };
      const { session, halves } = await attempts.try(whoTries(request.ip), async () =>
        signIn(deps, await readProof(deps, request.body), visitor),
      );
      request.caller = session.caller;
      reply.status(201).header('set-cookie', setCookie(request, reachedBy(request), halves.cookie));
      return { ok: true, ...toWire(deps, session), token: halves.token };
    },
  );

  app.get(
    '/session',
    { onRequest, schema: { response: { 200: ConsoleSessionResponse } } },
    async (request): Promise<ConsoleSessionResponse> => ({ ok: true, ...toWire(deps, sessionOf(request)) }),
  );

  app.delete(
    '/session',
    { onRequest, schema: { response: { 200: ConsoleEndedResponse } } },
    async (request, reply): Promise<ConsoleEndedResponse> => {
      const session = sessionOf(request);
      await endSession(deps, session, session.id);
      reply.header('set-cookie', clearCookie(request, reachedBy(request)));
      return { ok: true };
    },
  );

  app.post<{ Body: ConsoleConfirm }>(
    '/session/confirm',
    {
      bodyLimit,
      onRequest,
      schema: { body: ConsoleConfirm, response: { 200: ConsoleSessionResponse } },
    },
    async (request): Promise<ConsoleSessionResponse> => {
      const session = sessionOf(request);
      const confirmed = await attempts.try(session.id, async () =>
        confirm(deps, session, await deps.keyRing.verify(request.body.api_key.trim())),
      );
      return { ok: true, ...toWire(deps, confirmed) };
    },
  );

  app.get(
    '/sessions',
    { onRequest, schema: { response: { 200: ConsoleSessionsResponse } } },
    async (request): Promise<ConsoleSessionsResponse> => {
      const current = sessionOf(request);
      const sessions = (await listSessions(deps, current)).map((session) => ({
        id: session.id,
        is_current: session.id === current.id,
        address: session.address,
        user_agent: session.userAgent,
        created_at: session.createdAt.toISOString(),
        last_seen_at: session.seenAt.toISOString(),
        expires_at: session.expiresAt.toISOString(),
      }));
      return { ok: true, sessions };
    },
  );

  app.delete<{ Params: { id: string } }>(
    '/sessions/:id',
    { onRequest, schema: { response: { 200: ConsoleEndedResponse } } },
    async (request): Promise<ConsoleEndedResponse> => {
      await endSession(deps, sessionOf(request), request.params.id);
      return { ok: true };
    },
  );
}

async function readProof({ keyRing }: Deps, { link, api_key: apiKey }: ConsoleSignIn): Promise<Proof> {
  if (link !== undefined && apiKey !== undefined)
    throw errors.invalidRequest([{ path: 'link', problem: 'cannot be combined with "api_key"' }]);
  if (link !== undefined) return { link };
  const caller = await keyRing.verify((apiKey ?? '').trim());
  if (caller.kind === 'publishable') {
    // Everyone can get hold of it.
    throw errors.forbidden(
      'A publishable key cannot sign in to the console.',
      'Use an account key, the project key or a scoped key.',
    );
  }
  return { caller };
}

function toWire({ now }: Deps, session: ConsoleSession) {
  const { id, caller, account, expiresAt, confirmedUntil } = session;
  const isConfirmed = confirmedUntil.getTime() > now();
  return {
    id,
    person: null,
    account,
    ...scopeOf(caller),
    expires_at: expiresAt.toISOString(),
    confirmed_until: isConfirmed ? confirmedUntil.toISOString() : null,
  };
}

function scopeOf(caller: Caller) {
  if (caller.kind === 'account') return { scope: 'account' as const, project: null, scopes: null };
  const scopes = caller.kind === 'project' ? null : [...caller.scopes];
  return { scope: 'project' as const, project: caller.slug, scopes };
}

function printable(header: string | undefined): string | null {
  return header === undefined ? null : header.replace(/[^\x20-\x7e]/g, '?').slice(0, maxUserAgent);
}
