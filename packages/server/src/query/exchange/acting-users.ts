// Statements of acting users in a project's sessions. The login roles for them may only become `authenticated` or `anon`,
// so each statement runs in its own transaction that first sets the acting user. Outside a transaction they can do
// nothing.

import { errors } from '../../errors/errors.ts';
import type { ServerError } from '../../postgres/wire/server-error.ts';
import type { ActingUser } from '../../servers/databases/provision.ts';
import { anonymousRole } from '../../servers/template/shared-roles.ts';
import type { Command } from './commands.ts';
import { StatementFailed } from './failures.ts';

/** See migrations/project/0003_users.sql. */
const identify = 'select auth.act_as($1, $2, $3)';
/** Clears the claims, because a function may have set some for the session. */
const identifyAnonymous = `select pg_catalog.set_config('request.jwt.claims', '', true),
  pg_catalog.set_config('request.role', '${anonymousRole}', true)`;

/**
 * Begins the transaction in which the user acts. Not with prepared statements: a function that a policy calls could have
 * replaced them, and the next user would then act under another identity.
 */
export function enter(actingUser: ActingUser, begin = 'begin'): Command[] {
  const setRole = `set local role ${actingUser.role}`;
  if (actingUser.role === anonymousRole) return [begin, identifyAnonymous, setRole];
  const { sessionId, userId, claims } = actingUser;
  return [begin, { text: identify, parameters: [sessionId, userId, claims] }, setRole];
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

/** The error for a failure of one of our statements before the caller's. Nothing of the caller's statement has run. */
export function refusalOf(error: ServerError, status: StatementFailed['status']): Error {
  if (error.state !== sessionEndedState) return errors.unavailable(error);
  return new StatementFailed(errors.sessionEnded(), status);
}
