// Opens a session over HTTP: both of its halves, and an entry in the audit log, also for an attempt that failed.
import type { ConsoleSession as WireSession } from '@rowhouse/api';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { readEmail } from '../../access/mail/emails.ts';
import { accountsOf } from '../../access/people/members.ts';
import { type ConsoleSession, type Proof, signIn } from '../../access/people/sessions.ts';
import { RowhouseError } from '../../errors/errors.ts';
import type { Caller } from '../../keys/caller.ts';
import type { Deps } from '../deps.ts';
import { whoOf, write } from '../request/audit-entries.ts';
import { readCookies, setCookie } from './cookies.ts';
import { reachedBy } from './identify.ts';
import { personOf } from './person.ts';

const maxUserAgent = 300;

export type Way = 'password' | 'link' | 'key' | 'invitation' | 'passkey' | 'provider';
type Opening = {
  way: Way;
  /** As it was typed. */
  email?: string | undefined;
  prove: () => Promise<Proof>;
};

export async function openSession(
  deps: Deps,
  request: FastifyRequest,
  reply: FastifyReply,
  { way, email, prove }: Opening,
): Promise<WireSession & { token: string }> {
  const visitor = {
    address: request.ip,
    userAgent: printable(request.headers['user-agent']),
    cookies: readCookies(request, reachedBy(request)),
  };
  const about = { way, email };
  const { session, halves } = await prove()
    .then((proof) => signIn(deps, proof, visitor))
    .catch((error: unknown) => {
      // After the response: its time must not tell whether somebody has the address.
      deps.later.run(() => note(deps, request, about, error));
      throw error;
    });
  request.caller = session.caller;
  await note(deps, request, about, null);
  reply.header('set-cookie', setCookie(request, reachedBy(request), halves.cookie));
  return { ...toWire(deps, session), token: halves.token };
}

/** For the audit log. Attempts that fail are limited before they get here. */
async function note(
  deps: Deps,
  request: FastifyRequest,
  { way, email }: Pick<Opening, 'way' | 'email'>,
  error: unknown,
): Promise<void> {
  if (error !== null && !(error instanceof RowhouseError && error.status < 500)) return;
  const emailKey = email === undefined ? null : keyOf(email);
  const who = whoOf(request);
  // An attempt that failed concerns the accounts of the person whose address was typed.
  const isAbout = error !== null && emailKey !== null && who.accountId === null;
  const accounts = isAbout ? await accountsOf(deps.control, { emailKey }) : [who.accountId];
  for (const accountId of accounts) {
    await write(deps, {
      ...who,
      accountId,
      action: 'session.sign_in',
      project: null,
      details: { way },
      // Nothing of a key or a link may get into the log.
      target: emailKey === null ? null : (email ?? null),
      outcome: error === null ? 'done' : 'refused',
      error: error instanceof RowhouseError ? error.code : null,
    });
  }
}

/** null: what was typed into the field is no address. It may be a password. */
function keyOf(text: string): string | null {
  try {
    return readEmail(text).key || null;
  } catch {
    return null;
  }
}

export function toWire({ now }: Deps, session: ConsoleSession): WireSession {
  const { id, caller, account, lacksSecondFactor, suspendedBecause, expiresAt, confirmedUntil } = session;
  const isConfirmed = confirmedUntil.getTime() > now();
  return {
    id,
    person: personOf(session),
    role: caller.kind === 'account' ? caller.role : null,
    is_operator: caller.kind === 'account' && caller.isOperator,
    sees_all_projects: caller.kind === 'account' && caller.projects === null,
    lacks_second_factor: lacksSecondFactor,
    suspended_because: suspendedBecause,
    account,
    ...scopeOf(caller),
    expires_at: expiresAt.toISOString(),
    confirmed_until: isConfirmed ? confirmedUntil.toISOString() : null,
  };
}

function scopeOf(caller: Caller): Pick<WireSession, 'scope' | 'project' | 'scopes'> {
  if (caller.kind === 'account') return { scope: 'account', project: null, scopes: null };
  const scopes = caller.kind === 'project' ? null : [...caller.scopes];
  return { scope: 'project', project: caller.slug, scopes };
}

function printable(header: string | undefined): string | null {
  return header === undefined ? null : header.replace(/[^\x20-\x7e]/g, '?').slice(0, maxUserAgent);
}
