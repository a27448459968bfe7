// End users and strangers in a project's sessions. The roles that log in for them may do nothing but become `authenticated`,
// or `anon`, so each of their statements runs in a transaction of its own that first says who acts; outside of one nothing
// can be done.
import type { ActingUser } from '../../engine/provision.ts';
import { anonymousRole } from '../../engine/shared-roles.ts';
import { errors } from '../../errors.ts';
import type { ServerError } from '../../postgres/server-error.ts';
import type { Command } from './commands.ts';
import { StatementFailed } from './failures.ts';

/** See migrations/project/0003_users.sql. */
const identify = 'select auth.act_as($1, $2, $3)';
/** Without claims, whatever a function may have set for the session. */
const identifyNobody = `select pg_catalog.set_config('request.jwt.claims', '', true),
  pg_catalog.set_config('request.role', '${anonymousRole}', true)`;

/**
 * Begins the transaction in which the user acts. Not by prepared statements: a function that a policy calls could have
 * put others in their place, and the next user would be somebody else.
 */
export function enter(actingUser: ActingUser, begin = 'begin'): Command[] {
  const takeRole = `set local role ${actingUser.role}`;
  if (actingUser.role === anonymousRole) return [begin, identifyNobody, takeRole];
  const { sessionId, userId, claims } = actingUser;
  return [begin, { text: identify, parameters: [sessionId, userId, claims] }, takeRole];
}

/** The select takes the snapshot after which a transaction can no longer be made writable. */
export const lockReadOnly = 'select';

/** Begins a transaction, as the user who acts if there is one. */
export function beginning(readOnly: boolean, actingUser: ActingUser | undefined): Command[] {
  const begin = readOnly ? 'begin read only' : 'begin';
  if (actingUser) return enter(actingUser, begin);
  return readOnly ? [begin, lockReadOnly] : [begin];
}

/** What auth.act_as says no with. Told by nothing else: what a project's own code raises comes later. */
const endedState = 'RH002';

/** PostgreSQL's no to a statement of ours before the caller's, of which nothing has run. */
export function refusalOf(error: ServerError, status: StatementFailed['status']): Error {
  if (error.state !== endedState) return errors.unavailable(error);
  return new StatementFailed(errors.sessionEnded(), status);
}
