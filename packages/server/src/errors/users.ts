// Errors of end users: sign-up, sign-in, codes, administration. A new error code is declared first, with its HTTP status, in
// packages/api/src/error-codes.ts.
import { clip, RowhouseError } from './rowhouse-error.ts';

export const userErrors = {
  userNotFound: (message = 'The project has no such user.') =>
    new RowhouseError('user_not_found', message, {
      hint: 'List the users with GET /api/dbaas/v2/projects/:slug/auth/users.',
    }),
  userSessionNotFound: () =>
    new RowhouseError('session_not_found', 'The user has no such session, or it has ended.', {
      hint: "List the user's sessions with GET …/auth/users/:id/sessions.",
    }),
  emailTaken: () =>
    new RowhouseError('email_taken', 'A user with this email address already exists.', {
      hint: 'Sign in, or use another address. Addresses are compared without regard to case.',
    }),
  /** The same for a wrong email address and for a wrong password, so that it does not reveal which users exist. */
  invalidCredentials: () =>
    new RowhouseError('invalid_credentials', 'The email address or the password is wrong.', {
      hint: 'Passwords are case-sensitive. Reset a forgotten password with POST …/auth/recover.',
    }),
  /** The same for an unknown role, so that it does not reveal which roles exist; in PostgreSQL's words, which drivers know. */
  wrongPassword: (role: string) =>
    new RowhouseError('invalid_credentials', `password authentication failed for user "${clip(role)}"`, {
      hint: 'Get the role and its password with GET …/connection, or use an API key as the password and the slug as the database.',
    }),
  invalidCode: () =>
    new RowhouseError('invalid_code', 'This code is invalid, already used, or expired.', {
      hint: 'Request a new code.',
    }),
  userBanned: () =>
    new RowhouseError('forbidden', 'This user is banned.', {
      hint: 'An administrator of the project can lift the ban: PATCH …/auth/users/:id with {"banned": false}.',
      details: { reason: 'banned' },
    }),
  usersLocked: (cause: unknown) =>
    new RowhouseError(
      'unavailable',
      'Another transaction holds a lock on the users of the project. Nothing was changed.',
      {
        retryAfterS: 1,
        hint: 'Retry later. If this persists, look for a long or open transaction that uses auth.users, for example on a direct connection, or wait until a compaction has ended.',
        cause,
      },
    ),
  usersTooSlow: (timeoutMs: number, cause: unknown) =>
    new RowhouseError(
      'unavailable',
      `PostgreSQL needed more than ${timeoutMs / 1_000} s for this user. Nothing was changed.`,
      {
        retryAfterS: 1,
        hint: 'Retry later. If this persists, look for long transactions that use auth.users, and for the load of the server.',
        cause,
      },
    ),
  messageNotSent: (cause: unknown) =>
    new RowhouseError('unavailable', 'The message could not be sent.', {
      retryAfterS: 5,
      hint: 'Retry later. If this persists, the operator finds the reason in the log of the service under this request id.',
      cause,
    }),
};
