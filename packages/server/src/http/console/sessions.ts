// Sessions of the console over HTTP: signing in and out, the list of sessions, confirmation.

import {
  ConsoleConfirm,
  ConsoleEndedResponse,
  ConsoleSessionResponse,
  ConsoleSessionsResponse,
  ConsoleSignedInResponse,
  ConsoleSignIn,
  ConsoleSwitch,
} from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { provePasskey } from '../../access/people/passkeys.ts';
import { provePassword } from '../../access/people/passwords.ts';
import { proveByProvider } from '../../access/people/provider-sign-in.ts';
import {
  type ConsoleSession,
  confirm,
  endOtherSessions,
  endSession,
  listSessions,
  type Proof,
  requireOwnKey,
  switchAccount,
} from '../../access/people/sessions.ts';
import { provePerson } from '../../access/people/sign-in.ts';
import { errors } from '../../errors/errors.ts';
import { consoleBodyBytes } from '../../settings/limits/requests.ts';
import type { Deps } from '../deps.ts';
import { clearCookie } from './cookies.ts';
import { identifySession, reachedBy, sessionOf } from './identify.ts';
import { openAttempts, whoTries } from './network-attempts.ts';
import { openSession, toWire, type Way } from './open-session.ts';
import { peopleOf, personOf, requireProvider } from './person.ts';

/** The requests come from the page: the scope has checked that. */
export function sessionRoutes(app: FastifyInstance, deps: Deps): void {
  const attempts = openAttempts(deps.now);
  const onRequest = async (request: FastifyRequest) => identifySession(request, deps);

  app.post<{ Body: ConsoleSignIn }>(
    '/session',
    {
      bodyLimit: consoleBodyBytes,
      schema: { body: ConsoleSignIn, response: { 201: ConsoleSignedInResponse } },
    },
    async (request, reply): Promise<ConsoleSignedInResponse> => {
      const session = await attempts.try(whoTries(request.ip), () =>
        openSession(deps, request, reply, {
          way: wayOf(request.body),
          email: request.body.email,
          prove: () => readProof(deps, request),
        }),
      );
      reply.status(201);
      return { ok: true, ...session };
    },
  );

  app.get(
    '/session',
    { onRequest, schema: { response: { 200: ConsoleSessionResponse } } },
    async (request): Promise<ConsoleSessionResponse> => ({ ok: true, ...toWire(deps, sessionOf(request)) }),
  );

  /** The page asks again and again whether the session is still open. That does not count as use of it. */
  app.get(
    '/session/state',
    {
      onRequest: async (request) => identifySession(request, deps, { isUse: false }),
      schema: { response: { 200: ConsoleSessionResponse } },
    },
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
      bodyLimit: consoleBodyBytes,
      onRequest,
      schema: { body: ConsoleConfirm, response: { 200: ConsoleSessionResponse } },
    },
    async (request): Promise<ConsoleSessionResponse> => {
      const session = sessionOf(request);
      const proved = await attempts.try(session.id, () => prove(deps, session, request));
      return { ok: true, ...toWire(deps, await confirm(deps, session, proved)) };
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

  app.delete(
    '/sessions',
    { onRequest, schema: { response: { 200: ConsoleEndedResponse } } },
    async (request): Promise<ConsoleEndedResponse> => {
      await endOtherSessions(deps, sessionOf(request));
      return { ok: true };
    },
  );

  app.post<{ Body: ConsoleSwitch }>(
    '/session/account',
    {
      bodyLimit: consoleBodyBytes,
      onRequest,
      schema: { body: ConsoleSwitch, response: { 200: ConsoleEndedResponse } },
    },
    async (request): Promise<ConsoleEndedResponse> => {
      await switchAccount(deps, sessionOf(request), request.body.account_id);
      return { ok: true };
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

async function readProof(deps: Deps, { body, ip }: FastifyRequest<{ Body: ConsoleSignIn }>): Promise<Proof> {
  const { link, api_key: apiKey, email, password, code, passkey, provider } = body;
  const ways = [link, apiKey, email, passkey, provider].filter((way) => way !== undefined);
  if (ways.length !== 1)
    throw errors.invalidRequest([
      { path: '', problem: 'needs one of "link", "api_key", "passkey", "provider" and "email"' },
    ]);
  if (link !== undefined) return { link };
  if (passkey !== undefined)
    return { personId: await provePasskey(deps, passkey), accountId: null, hasSecondFactor: true };
  if (provider !== undefined) {
    const given = { answer: provider, code: code ?? null, network: whoTries(ip) };
    return { ...(await proveByProvider(peopleOf(deps), requireProvider(deps), given)), accountId: null };
  }
  if (email !== undefined) {
    const given = { email, password: password ?? '', code: code ?? null, network: whoTries(ip) };
    return { ...(await provePerson(peopleOf(deps), given)), accountId: null };
  }
  const caller = await deps.keyRing.verify((apiKey ?? '').trim());
  if (caller.kind === 'publishable') {
    // Everyone can get hold of it.
    throw errors.forbidden(
      'A publishable key cannot sign in to the console.',
      'Use an account key, the project key or a scoped key.',
    );
  }
  return { caller };
}

function wayOf({ email, link, passkey, provider }: ConsoleSignIn): Way {
  if (provider !== undefined) return 'provider';
  if (passkey !== undefined) return 'passkey';
  if (email !== undefined) return 'password';
  return link !== undefined ? 'link' : 'key';
}

/** The holder of a key enters the key again, a person the password, or uses a passkey. */
async function prove(
  deps: Deps,
  session: ConsoleSession,
  { body, ip }: FastifyRequest<{ Body: ConsoleConfirm }>,
): Promise<{ hasSecondFactor: boolean }> {
  const person = personOf(session);
  if (!person) {
    requireOwnKey(session, await deps.keyRing.verify((body.api_key ?? '').trim()));
    return { hasSecondFactor: false };
  }
  if (body.passkey !== undefined) {
    if ((await provePasskey(deps, body.passkey)) !== person.id) throw errors.invalidPasskey();
    return { hasSecondFactor: true };
  }
  const given = { email: person.email, password: body.password ?? '', network: whoTries(ip) };
  await provePassword(peopleOf(deps), given);
  return { hasSecondFactor: false };
}
