// Errors of the service and of PostgreSQL behind it.
import { RowhouseError } from './rowhouse-error.ts';

export const serviceErrors = {
  unavailable: (cause: unknown) =>
    new RowhouseError('unavailable', 'PostgreSQL is unavailable. Nothing was changed.', {
      retryAfterS: 1,
      hint: 'Retry in a few seconds.',
      cause,
    }),
  serverDetached: () =>
    new RowhouseError('unavailable', 'This server is detached since a restore. Nothing was changed.', {
      retryAfterS: 60,
      hint: 'The operator attaches it: rowhouse servers attach <name>.',
    }),
  starting: () =>
    new RowhouseError('unavailable', 'The service is starting.', {
      retryAfterS: 1,
      hint: 'Retry in a few seconds.',
    }),
  stopping: () =>
    new RowhouseError('unavailable', 'The service is stopping.', {
      retryAfterS: 1,
      hint: 'Send the request to another process of the service.',
    }),
  notUpgraded: (cause: unknown, retryAfterS: number) =>
    new RowhouseError(
      'unavailable',
      'The database of this project is still being upgraded. Nothing was changed.',
      {
        retryAfterS,
        hint: 'Retry in a few seconds. If this persists, end open transactions on direct connections: they can block the upgrade.',
        cause,
      },
    ),
  /** Its database is being copied or exchanged, and the request has waited for as long as it could. */
  projectPaused: () =>
    new RowhouseError(
      'unavailable',
      'The project is paused while it is copied or moved. Nothing was changed.',
      {
        retryAfterS: 5,
        hint: 'Retry in a few seconds. The list of jobs shows how far the copy or move is.',
      },
    ),
  outcomeUnknown: (cause: unknown, message = 'The connection to PostgreSQL was lost during the change.') =>
    new RowhouseError('outcome_unknown', message, {
      retryAfterS: 1,
      hint: 'The change may have taken effect. Check the data before you send it again.',
      cause,
    }),
  /** The limit of the project's role is used up. */
  noConnectionLeft: (cause: unknown) =>
    new RowhouseError(
      'unavailable',
      'Direct connections take all connections of this project, and they did not end in time. Nothing was changed.',
      {
        retryAfterS: 1,
        hint: 'Close direct connections of this project, or let its clients open fewer. Then retry.',
        cause,
      },
    ),
  /** A statement of the service itself reached its limit, and was rolled back. */
  tooSlow: (cause: unknown) =>
    new RowhouseError(
      'unavailable',
      'PostgreSQL took too long for a step of this request, so the request was given up. Nothing was changed.',
      {
        retryAfterS: 5,
        hint: 'Retry in a few seconds. If this persists, the disk of the server is overloaded, or a statement holds a lock.',
        cause,
      },
    ),
  signInTooSlow: (retryAfterS: number) =>
    new RowhouseError('unavailable', 'Signing in takes too long because the service is busy.', {
      retryAfterS,
      hint: `Nothing was changed. Retry in ${retryAfterS} s.`,
    }),
  /** The deadline of the request has passed, and nothing was sent that could change anything. */
  noAnswer: () =>
    new RowhouseError('unavailable', 'PostgreSQL did not answer in time. Nothing was changed.', {
      retryAfterS: 1,
      hint: 'Retry in a few seconds. For a statement, "timeout_ms" allows more time.',
    }),
  noAnswerToChange: () =>
    serviceErrors.outcomeUnknown(undefined, 'PostgreSQL did not answer in time during the change.'),
  internal: (cause: unknown) =>
    new RowhouseError('internal_error', 'The service failed because of an internal error.', {
      hint: 'The operator finds the cause in the log of the service under this request id.',
      cause,
    }),
};
