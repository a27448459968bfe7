// One error class and the table of everything the service says no with.
import { type ErrorCode, errorCodes, type Problem, type Scope } from '@rowhouse/api';

type Extras = {
  hint?: string;
  details?: unknown;
  retryAfterS?: number;
  cause?: unknown;
  status?: number;
  sql?: Record<string, string>;
};

/** What a caller is told. Anything else that is thrown is a fault of ours: 500, and only the log knows more. */
export class RowhouseError extends Error {
  override readonly name = 'RowhouseError';
  readonly code: ErrorCode;
  readonly status: number;
  readonly hint: string | undefined;
  readonly details: unknown;
  readonly retryAfterS: number | undefined;
  /** PostgreSQL's own words about the caller's SQL. */
  readonly sql: Record<string, string> | undefined;

  constructor(code: ErrorCode, message: string, extras: Extras = {}) {
    super(message, { cause: extras.cause });
    this.code = code;
    this.status = extras.status ?? errorCodes[code].status;
    this.sql = extras.sql;
    this.hint = extras.hint;
    this.details = extras.details;
    this.retryAfterS = extras.retryAfterS;
  }
}

const keyHint = 'Send it as "Authorization: Bearer <API_KEY>" or "X-API-Key: <API_KEY>".';

/** Of a table or a column. */
const maxNameBytes = 63;

export const errors = {
  invalidRequest: (problems: Problem[], hint?: string) =>
    new RowhouseError(
      'invalid_request',
      problems.map(({ path, problem }) => (path ? `${path}: ${problem}` : problem)).join('; '),
      { details: problems, ...(hint && { hint }) },
    ),
  invalidJson: (problem: string) =>
    new RowhouseError('invalid_json', `The body is not usable JSON: ${problem}`),
  multipleStatements: (count: number) =>
    new RowhouseError('multiple_statements', `The query holds ${count} statements; it can hold one.`, {
      hint: 'Send them one by one, or each as an entry of POST …/batch, which runs them in one transaction.',
    }),
  statementNotAllowed: (message: string, hint: string) =>
    new RowhouseError('statement_not_allowed', message, { hint }),
  queryTimeout: (timeoutMs: number) =>
    new RowhouseError('query_timeout', `The statement ran longer than ${timeoutMs} ms and was ended.`, {
      hint: 'Nothing of it was kept, except what a CALL or DO had committed itself. Give it more time with "timeout_ms", or make it do less.',
      details: { timeout_ms: timeoutMs },
    }),
  tooManyAffected: (affected: number, maxAffected: number) =>
    new RowhouseError(
      'conflict',
      `The statement affects ${affected} rows, more than max_affected allows (${maxAffected}).`,
      {
        hint: 'Nothing was changed. Narrow the statement, or raise "max_affected".',
        details: { retryable: false, affected, max_affected: maxAffected },
      },
    ),
  resultTooLarge: (message: string) =>
    new RowhouseError('sql_error', message, {
      hint: 'Ask for less of it: substr(…), fewer columns, fewer rows.',
    }),
  rowsNotShown: (cause: RowhouseError) =>
    new RowhouseError('sql_error', `The change was made, but its rows are not shown. ${cause.message}`, {
      hint: 'Do not send it again. Read the rows with a request of their own, or leave RETURNING out.',
      cause,
    }),
  missingApiKey: (message = 'This request needs an API key.', hint = keyHint) =>
    new RowhouseError('missing_api_key', message, { hint }),
  invalidApiKey: (message = 'This API key is unknown, expired or revoked.', hint?: string) =>
    new RowhouseError('invalid_api_key', message, { ...(hint && { hint }) }),
  invalidToken: (
    message = 'This access token is not valid here.',
    hint = 'POST …/auth/signin gives a new one.',
  ) => new RowhouseError('invalid_token', message, { hint }),
  sessionEnded: () =>
    errors.invalidToken('The session of this token has ended.', 'POST …/auth/signin begins a new one.'),
  forbidden: (message: string, hint: string) => new RowhouseError('forbidden', message, { hint }),
  scopeMissing: (scope: Scope) =>
    new RowhouseError('forbidden', 'This key may not do that.', {
      hint: `It needs the scope "${scope}". Use the project's own key, or issue a key with that scope.`,
    }),
  projectNotFound: (slug: string) =>
    new RowhouseError('project_not_found', `There is no project "${clip(slug)}" that this key can see.`, {
      hint: 'GET /api/dbaas/v2/projects lists those it can.',
    }),
  projectDeleted: (slug: string) =>
    new RowhouseError('project_not_found', `The project "${slug}" is deleted.`, {
      hint: 'POST /api/dbaas/v2/projects/:slug/restore brings it back.',
    }),
  tableNotFound: (name: string, nearest: string | null) =>
    new RowhouseError('table_not_found', `The project has no table or view "${clip(name)}".`, {
      hint: nearest
        ? `Did you mean "${nearest}"?`
        : name.split('.').some((part) => Buffer.byteLength(part) > maxNameBytes)
          ? `PostgreSQL cuts names at ${maxNameBytes} bytes when a table is made: ask for what was left of it.`
          : 'GET /api/dbaas/v2/projects/:slug/tables lists those it has.',
      ...(nearest && { details: { nearest } }),
    }),
  /** `allowed`: methods that this table takes. */
  tableNotWritable: (message: string, hint: string, allowed: string[]) =>
    new RowhouseError('method_not_allowed', message, { hint, details: { allowed } }),
  /** `index`: which row of several. */
  columnsMissing: (table: string, columns: string[], index: number | null) => {
    const names = columns.slice(0, 10).map((name) => `"${name}"`);
    const more = columns.length > 10 ? ' and others' : '';
    const why =
      columns.length > 1
        ? 'they may not be null and have no default'
        : 'it may not be null and has no default';
    const row = index === null ? '' : `Row ${index + 1}: `;
    return new RowhouseError(
      'constraint_violation',
      `${row}${names.join(', ')}${more} of "${table}" must be given: ${why}.`,
      { hint: 'Nothing was inserted.', details: { columns, ...(index !== null && { index }) } },
    );
  },
  keyNotFound: (id: string) =>
    new RowhouseError('key_not_found', `The project has no key "${clip(id)}".`, {
      hint: 'GET /api/dbaas/v2/projects/:slug/keys lists its keys.',
    }),
  userNotFound: (message = 'The project has no such user.') =>
    new RowhouseError('user_not_found', message, {
      hint: 'GET /api/dbaas/v2/projects/:slug/auth/users lists its users.',
    }),
  emailTaken: () =>
    new RowhouseError('email_taken', 'The project has a user with this e-mail already.', {
      hint: 'Sign in with it, or use another one. Case does not matter.',
    }),
  /** The same whether the e-mail or the password was wrong. */
  invalidCredentials: () =>
    new RowhouseError('invalid_credentials', 'The e-mail or the password is wrong.', {
      hint: 'Passwords are told apart by case. POST …/auth/recover begins with a new one.',
    }),
  /** The same whether there is such a role or not; in PostgreSQL's words, which drivers know. */
  wrongPassword: (role: string) =>
    new RowhouseError('invalid_credentials', `password authentication failed for user "${clip(role)}"`, {
      hint: 'GET …/connection gives role and password. An API key is good as the password as well, with the slug as the database.',
    }),
  invalidCode: () =>
    new RowhouseError('invalid_code', 'This code is not one, was used before, or is past its time.', {
      hint: 'Ask for a new one.',
    }),
  userBanned: () =>
    new RowhouseError('forbidden', 'This user is banned.', {
      hint: 'The project\'s administrators can lift it: PATCH …/auth/users/:id with {"banned": false}.',
      details: { reason: 'banned' },
    }),
  usersLocked: (cause: unknown) =>
    new RowhouseError(
      'unavailable',
      "The project's users are locked by a transaction of its own. Nothing was changed.",
      {
        retryAfterS: 1,
        hint: 'Try again when it has ended: one that uses auth.users is open on a direct connection, or long.',
        cause,
      },
    ),
  rateLimited: (message: string, retryAfterS: number) =>
    new RowhouseError('rate_limited', message, {
      retryAfterS,
      hint: `Try again in ${retryAfterS} s.`,
    }),
  routeNotFound: (method: string, path: string) =>
    new RowhouseError('route_not_found', `There is nothing at ${method} ${clip(path)}.`, {
      hint: 'GET /docs shows every endpoint.',
    }),
  methodNotAllowed: (method: string, allowed: string[]) =>
    new RowhouseError('method_not_allowed', `${method} does not work here; ${allowed.join(', ')} would.`, {
      details: { allowed },
    }),
  requestTimeout: () => new RowhouseError('request_timeout', 'The request was sent too slowly.'),
  headersTooLarge: () => new RowhouseError('headers_too_large', 'The request headers are too large.'),
  slugTaken: (slug: string) =>
    new RowhouseError('slug_taken', `The slug "${slug}" is taken.`, {
      hint: 'Choose another, or leave "slug" out to get a free one made from the name.',
    }),
  conflict: (message: string, hint: string) =>
    new RowhouseError('conflict', message, { hint, details: { retryable: false } }),
  repeatRunning: () =>
    new RowhouseError('conflict', 'The first request with this Idempotency-Key is still running.', {
      hint: 'Send the same request again a little later: it gets the answer of the first.',
      details: { retryable: true },
      retryAfterS: 1,
    }),
  repeatDiffers: () =>
    new RowhouseError('conflict', 'This Idempotency-Key was used for another request before.', {
      hint: 'The query string or the body is not the same. A new request needs a new key; nothing was run.',
      details: { retryable: false },
    }),
  repeatNotKept: (status: number | null) =>
    new RowhouseError('conflict', 'The request with this Idempotency-Key ran; its answer is not kept.', {
      hint: 'It was streamed or too large to be given again. Nothing was run now: read the result by a request of its own.',
      details: { retryable: false, ran: true, ...(status !== null && { status }) },
    }),
  repeatUnknown: () =>
    new RowhouseError(
      'outcome_unknown',
      'The first request with this Idempotency-Key was begun, and how it ended is not known.',
      {
        status: 409,
        hint: 'It may or may not have taken effect, and nothing was run now: look, and if it has not, send it with a new key.',
        details: { retryable: false },
      },
    ),
  tooManyRepeats: (max: number) =>
    new RowhouseError(
      'rate_limited',
      `${max} Idempotency-Keys were used in 24 hours, the most that are kept. Nothing was run.`,
      {
        hint: 'Send the request without one, or later; requests that were answered before still get their answer.',
        retryAfterS: 60,
      },
    ),
  payloadTooLarge: (maxBytes: number) =>
    new RowhouseError(
      'payload_too_large',
      `The body is larger than the ${maxBytes} bytes this endpoint takes.`,
      {
        hint: 'Send it in several smaller requests.',
        details: { max_bytes: maxBytes },
      },
    ),
  unsupportedMediaType: (type: string | undefined) =>
    new RowhouseError(
      'unsupported_media_type',
      type ? `This endpoint does not take a body of type "${clip(type)}".` : 'The body has no content type.',
      { hint: 'Send JSON with "Content-Type: application/json".' },
    ),
  overloaded: (message: string, retryAfterS: number) =>
    new RowhouseError('overloaded', message, { retryAfterS, hint: 'Try again a little later.' }),
  /** Of the machine, not of the project. Without facts PostgreSQL itself has met the end of the disk. */
  /** `isFull`: already, or only if this were done. */
  projectFull: (facts: { limit_mb: number; size_mb: number }, isFull = true) =>
    new RowhouseError(
      'project_full',
      isFull
        ? `The project is full: it holds ${facts.size_mb} MB, and limit_mb is ${facts.limit_mb}. Nothing was changed.`
        : `This needs more room than the project has: it holds ${facts.size_mb} MB, and limit_mb is ${facts.limit_mb}. Nothing was changed.`,
      {
        hint: 'Reading, DELETE, TRUNCATE, DROP and VACUUM still work; POST …/compact gives back what deleted rows left. The account can raise limit_mb: PATCH /api/dbaas/v2/projects/:slug.',
        details: facts,
      },
    ),
  needsMoreRoom: (facts: { limit_mb: number; size_mb: number }, needsMb: number) =>
    new RowhouseError(
      'project_full',
      `A statement that commits by itself (CONCURRENTLY, a procedure with COMMIT) needs ${needsMb} MB of room, more than the project has. Nothing was changed.`,
      {
        hint: 'Leave out CONCURRENTLY or COMMIT, make room, or let the account raise limit_mb.',
        details: facts,
      },
    ),
  stoppedHalfway: (facts: { limit_mb: number; size_mb: number }) =>
    new RowhouseError(
      'project_full',
      `The statement was stopped: it took the project too near to its limit_mb, ${facts.limit_mb}. What it had committed by itself stays.`,
      {
        hint: 'Make room, do less at a time, or let the account raise limit_mb.',
        details: facts,
      },
    ),
  serverFull: (facts?: { free_mb: number; reserve_mb: number }, extras: Extras = {}) =>
    new RowhouseError('server_full', "The service's disk is nearly full. Nothing was changed.", {
      retryAfterS: 30,
      hint: 'Reading and deleting still work. Whoever runs the service has to make room on its disk.',
      ...(facts && { details: facts }),
      ...extras,
    }),
  /** Of a statement that may have committed something in the middle. */
  stoppedForDisk: () =>
    new RowhouseError(
      'server_full',
      "The service's disk is nearly full, so the statement was stopped. Nothing of it was kept, except what a CALL or DO had committed itself.",
      {
        retryAfterS: 30,
        hint: 'Reading and deleting still work. Whoever runs the service has to make room on its disk.',
      },
    ),
  unavailable: (cause: unknown) =>
    new RowhouseError('unavailable', 'PostgreSQL is away or starting. Nothing was changed.', {
      retryAfterS: 1,
      hint: 'Try again in a moment.',
      cause,
    }),
  starting: () =>
    new RowhouseError('unavailable', 'The service is starting.', {
      retryAfterS: 1,
      hint: 'Try again in a moment.',
    }),
  usageTimeout: (timeoutMs: number) =>
    new RowhouseError('query_timeout', `Measuring the tables took longer than ${timeoutMs} ms.`, {
      hint: 'Try again a little later: the machine is busy, or there are very many tables. GET the project itself has its size.',
      details: { timeout_ms: timeoutMs },
    }),
  usageLocked: (cause: unknown) =>
    new RowhouseError('unavailable', 'Tables of this project are being locked again and again.', {
      retryAfterS: 2,
      hint: 'Try again a little later. GET the project itself has its size.',
      cause,
    }),
  messageNotSent: (cause: unknown) =>
    new RowhouseError('unavailable', 'The message could not be sent.', {
      retryAfterS: 5,
      hint: "Try again a little later. If it goes on, the service's log has the reason under this request id.",
      cause,
    }),
  notUpgraded: (cause: unknown, retryAfterS: number) =>
    new RowhouseError(
      'unavailable',
      'The database of this project has to be brought up to date first, which is not done yet. Nothing was changed.',
      {
        retryAfterS,
        hint: 'Try again in a moment. If it goes on: an open transaction on a direct connection can be in the way.',
        cause,
      },
    ),
  outcomeUnknown: (
    cause: unknown,
    message = 'The connection to PostgreSQL broke while the change was being made.',
  ) =>
    new RowhouseError('outcome_unknown', message, {
      retryAfterS: 1,
      hint: 'It may or may not have taken effect: look before you send it again.',
      cause,
    }),
  /** The time of the whole request is over, and nothing was sent that could change something. */
  noAnswer: () =>
    new RowhouseError('unavailable', 'PostgreSQL did not answer in time. Nothing was changed.', {
      retryAfterS: 1,
      hint: 'Try again in a moment, or allow it more time.',
    }),
  noAnswerToChange: () =>
    errors.outcomeUnknown(undefined, 'PostgreSQL did not answer in time while the change was being made.'),
  internal: (cause: unknown) =>
    new RowhouseError('internal_error', 'Something went wrong inside the service.', {
      hint: "The service's log has more under this request id.",
      cause,
    }),
};

/** A message never repeats more of the caller's input than a person would read. */
function clip(text: string): string {
  const printable = text.replace(/\p{C}/gu, '�');
  return printable.length > 80 ? `${printable.slice(0, 80)}…` : printable;
}
