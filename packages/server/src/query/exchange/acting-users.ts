// Statements of acting users in a project's sessions. The login roles for users may only become `authenticated` or `anon`, and
// each of their sessions has that role from its start. The first statement of a transaction sets who acts in it:
//
//   a plain statement   shares its session with those of others. The first statement is prepared, and written together with it;
//                       both are one implicit transaction (`identifying`)
//   any other           has its session to itself until that is reset, in a transaction that begins explicitly (`enter`)

import { LRUCache } from 'lru-cache';
import { errors } from '../../errors/errors.ts';
import { upTo } from '../../lib/cache-size.ts';
import type { ServerError } from '../../postgres/wire/server-error.ts';
import type { ActingUser, ProjectLogin } from '../../servers/databases/login.ts';
import { anonymousRole, userRole } from '../../servers/template/shared-roles.ts';
import type { Command } from './commands.ts';
import { StatementFailed } from './failures.ts';

/** See migrations/project/0009_shared_sessions.sql. */
const identify = 'select auth.act_as($1, $2, $3, $4, $5)';
/** Clears the claims, because a function may have set some for the session. */
const identifyAnonymous = `select pg_catalog.set_config('request.jwt.claims', '', true),
  pg_catalog.set_config('request.role', '${anonymousRole}', true)`;

/**
 * Begins the transaction in which the user acts. Not with prepared statements: a function that a policy calls could have
 * replaced them, and the next user would then act under another identity.
 */
export function enter(actingUser: ActingUser, begin = 'begin'): Command[] {
  const setRole = `set local role ${actingUser.role}`;
  return [begin, { text: identityTexts[actingUser.role], parameters: parametersOf(actingUser) }, setRole];
}

const identityTexts: Record<ActingUser['role'], string> = {
  authenticated: identify,
  anon: identifyAnonymous,
};

function parametersOf(actingUser: ActingUser): string[] {
  if (actingUser.role === anonymousRole) return [];
  const { sessionId, userId, claims, email, claimedRole } = actingUser;
  return [sessionId, userId, claims, email, claimedRole];
}

/** What a session of this login keeps prepared for `identifying`. */
export function identityOf(loginAs: 'user' | 'anon'): { name: string; text: string } {
  return { name: identityName, text: identityTexts[loginAs === 'anon' ? anonymousRole : userRole] };
}
const identityName = 'act_as';

/** For a session that statements share. The project's code never runs there, so nothing can have replaced what is prepared. */
export function identifying(actingUser: ActingUser): Command {
  return { prepared: identityName, parameters: parametersOf(actingUser) };
}

/** Takes a snapshot, after which the transaction can no longer be made writable. */
export const lockReadOnly = 'select';

/** Begins a transaction, for the acting user if there is one. */
export function beginning(readOnly: boolean, actingUser: ActingUser | undefined): Command[] {
  const begin = readOnly ? 'begin read only' : 'begin';
  if (actingUser) return enter(actingUser, begin);
  return readOnly ? [begin, lockReadOnly] : [begin];
}

/** The state that auth.act_as raises. It cannot come from the project's code, which runs later. */
const sessionEndedState = 'RH002';

/**
 * A user whose statement fails undoes those of everyone in its group, and may go on sending: one whose session has ended, or one who
 * wants just that. So their statements run by themselves for a while. Who was banned can be let in again: nothing is remembered for
 * longer than that.
 */
const aloneUntil = new LRUCache<string, number>(upTo(10_000));
const aloneMs = 2_000;

/** Returns what tells the user from others; null: it is no user, but a key of the project or `anon`. */
export function letRunAlone(login: Login | undefined): string | null {
  const user = login && userKeyOf(login);
  if (!user) return null;
  aloneUntil.set(user, performance.now() + aloneMs);
  return user;
}

export function runsAlone(login: Login): boolean {
  const user = userKeyOf(login);
  return user !== null && performance.now() < (aloneUntil.get(user) ?? 0);
}

type Login = Pick<ProjectLogin, 'id' | 'actingUser'>;

/** Projects can have users with the same id: a branch has those of its parent, and an import keeps ids. */
function userKeyOf({ id, actingUser: user }: Login): string | null {
  return user?.role === userRole ? `${id} ${user.userId}` : null;
}

/** For a failure of `identifying`: the caller is told about the first; after any other, the session is not used again. */
export function saysSessionEnded({ state }: ServerError): boolean {
  return state === sessionEndedState;
}

/** The error for a failure of one of our statements before the caller's. Nothing of the caller's statement has run. */
export function refusalOf(error: ServerError, status: StatementFailed['status']): Error {
  if (!saysSessionEnded(error)) return errors.unavailable(error);
  return new StatementFailed(errors.sessionEnded(), status);
}
