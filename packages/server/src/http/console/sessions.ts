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
import { errors, RowhouseError } from '../../errors.ts';
import type { Caller } from '../../keys/caller.ts';
import { provePassword } from '../../people/passwords.ts';
import {
  type ConsoleSession,
  confirm,
  endOtherSessions,
  endSession,
  listSessions,
  type Proof,
  requireOwnKey,
  signIn,
  switchAccount,
} from '../../people/sessions.ts';
import { provePerson } from '../../people/sign-in.ts';
import { readEmail } from '../../users/emails.ts';
import { whoOf, write } from '../audited.ts';
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
      const open = async () => signIn(deps, await readProof(deps, request), visitor);
      const { session, halves } = await attempts.try(whoTries(request.ip), async () =>
        open().catch(async (error: unknown) => {
          await noteSignIn(deps, request, error);
          throw error;
        }),
      );
      request.caller = session.caller;
      await noteSignIn(deps, request, null);
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
      await attempts.try(session.id, () => prove(deps, session, request));
      return { ok: true, ...toWire(deps, await confirm(deps, session)) };
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
    { bodyLimit, onRequest, schema: { body: ConsoleSwitch, response: { 200: ConsoleEndedResponse } } },
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
  const { link, api_key: apiKey, email, password, code } = body;
  const ways = [link, apiKey, email].filter((way) => way !== undefined);
  if (ways.length !== 1)
    throw errors.invalidRequest([{ path: '', problem: 'needs one of "link", "api_key" and "email"' }]);
  if (link !== undefined) return { link };
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

/** What was typed into the field may be a password. */
function isEmail(text: string): boolean {
  try {
    return readEmail(text).key !== '';
  } catch {
    return false;
  }
}

/** For the audit log. Attempts that fail are limited before they get here. */
async function noteSignIn(
  deps: Deps,
  request: FastifyRequest<{ Body: ConsoleSignIn }>,
  error: unknown,
): Promise<void> {
  if (error !== null && !(error instanceof RowhouseError && error.status < 500)) return;
  const { body } = request;
  const way = body.email !== undefined ? 'password' : body.link !== undefined ? 'link' : 'key';
  await write(deps, {
    ...whoOf(request),
    action: 'session.sign_in',
    project: null,
    // Of a key or a link, nothing may get into the log.
    target: body.email !== undefined && isEmail(body.email) ? body.email : null,
    outcome: error === null ? 'done' : 'refused',
    error: error instanceof RowhouseError ? error.code : null,
    details: { way },
  });
}

/** The holder of a key enters the key again, a person the password. */
async function prove(
  deps: Deps,
  session: ConsoleSession,
  { body, ip }: FastifyRequest<{ Body: ConsoleConfirm }>,
): Promise<void> {
  const person = personOf(session);
  if (!person) return requireOwnKey(session, await deps.keyRing.verify((body.api_key ?? '').trim()));
  const given = { email: person.email, password: body.password ?? '', network: whoTries(ip) };
  await provePassword(peopleOf(deps), given);
}

/** null: the session is that of a key. */
export function personOf({ caller }: ConsoleSession): { id: string; email: string } | null {
  return caller.kind === 'account' ? caller.person : null;
}

/** What the functions for people need. */
export function peopleOf({ control, users: { hashing }, masterKey, now }: Deps) {
  return { control, hashing, masterKey, now };
}

function toWire({ now }: Deps, session: ConsoleSession) {
  const { id, caller, account, lacksSecondFactor, expiresAt, confirmedUntil } = session;
  const isConfirmed = confirmedUntil.getTime() > now();
  return {
    id,
    person: personOf(session),
    role: caller.kind === 'account' ? caller.role : null,
    is_operator: caller.kind === 'account' && caller.isOperator,
    lacks_second_factor: lacksSecondFactor,
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
