// The error class, and a constructor for each error that the service reports to callers.
import { type ErrorCode, errorCodes, type Problem, type Scope } from '@rowhouse/api';

type Extras = {
  hint?: string;
  details?: unknown;
  retryAfterS?: number;
  cause?: unknown;
  status?: number;
  sql?: Record<string, string>;
};

/** An error for the caller. Anything else that is thrown is a bug: the caller gets 500, and only the log has more. */
export class RowhouseError extends Error {
  override readonly name = 'RowhouseError';
  readonly code: ErrorCode;
  readonly status: number;
  readonly hint: string | undefined;
  readonly details: unknown;
  readonly retryAfterS: number | undefined;
  /** PostgreSQL's own fields for an error in the caller's SQL. */
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

const diskHint =
  'Reads and deletes still work. The operator must free space on the disk, or add some. Retry in 30 s.';

/** The actions that a publishable key cannot do, by the scope that they require. */
const refusedToPublishable: Record<Scope, string> = {
  query: 'run SQL',
  'query:read': 'run SQL',
  'tables:read': 'list tables or read the schema',
  'tables:write': 'change tables',
  auth: 'manage sign-in',
  manage: 'manage the project',
};

/** PostgreSQL's limit for the name of a table or column. */
const maxNameBytes = 63;

export const errors = {
  invalidRequest: (problems: Problem[], hint?: string) =>
    new RowhouseError(
      'invalid_request',
      problems.map(({ path, problem }) => (path ? `${path}: ${problem}` : problem)).join('; '),
      { details: problems, ...(hint && { hint }) },
    ),
  invalidJson: (problem: string) =>
    new RowhouseError('invalid_json', `The request body is not valid JSON: ${problem}`),
  multipleStatements: (count: number) =>
    new RowhouseError('multiple_statements', `The query contains ${count} statements. Only one is allowed.`, {
      hint: 'Send one statement per request, or use POST …/batch to run several in one transaction.',
    }),
  statementNotAllowed: (message: string, hint: string) =>
    new RowhouseError('statement_not_allowed', message, { hint }),
  queryTimeout: (timeoutMs: number) =>
    new RowhouseError('query_timeout', `The statement was canceled after ${timeoutMs} ms.`, {
      hint: 'It was rolled back, except for anything that a CALL or DO had already committed. Raise "timeout_ms", or make the statement do less.',
      details: { timeout_ms: timeoutMs },
    }),
  tooManyAffected: (affected: number, maxAffected: number) =>
    new RowhouseError(
      'conflict',
      `The statement affects ${affected} rows, but "max_affected" is ${maxAffected}.`,
      {
        hint: 'It was rolled back. Narrow the statement, or raise "max_affected".',
        details: { retryable: false, affected, max_affected: maxAffected },
      },
    ),
  resultTooLarge: (message: string) =>
    new RowhouseError('sql_error', message, {
      hint: 'Request less data: select fewer columns or rows, or cut long values with substr(…).',
    }),
  rowsNotShown: (cause: RowhouseError) =>
    new RowhouseError(
      'sql_error',
      `The change was committed, but its rows cannot be returned. ${cause.message}`,
      {
        hint: 'Do not send it again. Read the rows with a separate request. Next time, omit RETURNING.',
        cause,
      },
    ),
  missingApiKey: (message = 'This request requires an API key.', hint = keyHint) =>
    new RowhouseError('missing_api_key', message, { hint }),
  invalidApiKey: (
    message = 'This API key is unknown, expired, or revoked.',
    hint = 'Check that you sent the whole key. An account key can list the keys of a project and their status: GET …/keys.',
  ) => new RowhouseError('invalid_api_key', message, { hint }),
  invalidToken: (
    message = 'This access token is invalid for this project.',
    hint = 'Get a new one with POST …/auth/signin.',
  ) => new RowhouseError('invalid_token', message, { hint }),
  sessionEnded: () =>
    errors.invalidToken(
      'The session of this access token has ended.',
      'Sign in again with POST …/auth/signin.',
    ),
  forbidden: (message: string, hint: string) => new RowhouseError('forbidden', message, { hint }),
  scopeMissing: (scope: Scope) =>
    new RowhouseError('forbidden', `This API key lacks the scope "${scope}".`, {
      hint: `Use the project key, or issue a key with the scope "${scope}": POST …/keys.`,
    }),
  publishableKey: (scope: Scope) =>
    new RowhouseError('forbidden', `A publishable key cannot ${refusedToPublishable[scope]}.`, {
      hint: 'It can sign users up and in, and read and write rows with …/tables/:table where row security allows it. For anything else, use the project key or a scoped key on your server.',
    }),
  projectNotFound: (slug: string) =>
    new RowhouseError(
      'project_not_found',
      `The project "${clip(slug)}" does not exist, or this key has no access to it.`,
      {
        hint: 'List the projects of this key with GET /api/dbaas/v2/projects.',
      },
    ),
  projectNotReady: (slug: string, job: string) =>
    new RowhouseError('project_not_ready', `The project "${slug}" is still being created.`, {
      hint: `GET /api/dbaas/v2/jobs/${job} reports the progress. DELETE cancels it.`,
      details: { job },
    }),
  jobNotFound: (id: string) => new RowhouseError('job_not_found', `There is no job "${id}".`),
  projectDeleted: (slug: string) =>
    new RowhouseError('project_not_found', `The project "${slug}" is deleted.`, {
      hint: 'Restore it with POST /api/dbaas/v2/projects/:slug/restore.',
    }),
  tableNotFound: (name: string, nearest: string | null) =>
    new RowhouseError('table_not_found', `The project has no table or view "${clip(name)}".`, {
      hint: nearest
        ? `Did you mean "${nearest}"?`
        : name.split('.').some((part) => Buffer.byteLength(part) > maxNameBytes)
          ? `PostgreSQL truncates names to ${maxNameBytes} bytes when it creates a table. Use the truncated name.`
          : 'List the tables with GET /api/dbaas/v2/projects/:slug/tables.',
      ...(nearest && { details: { nearest } }),
    }),
  /** `allowed`: the methods that this table accepts. */
  tableNotWritable: (message: string, hint: string, allowed: string[]) =>
    new RowhouseError('method_not_allowed', message, { hint, details: { allowed } }),
  /** `index`: the position of the row in the body; null for a single row. */
  columnsMissing: (table: string, columns: string[], index: number | null) => {
    const names = columns.slice(0, 10).map((name) => `"${name}"`);
    const more = columns.length > 10 ? ' and others' : '';
    const why =
      columns.length > 1
        ? 'they must not be null and have no default'
        : 'it must not be null and has no default';
    const row = index === null ? '' : `Row ${index + 1}: `;
    return new RowhouseError(
      'constraint_violation',
      `${row}${names.join(', ')}${more} of "${table}" ${columns.length > 1 ? 'are' : 'is'} required: ${why}.`,
      {
        hint: 'Nothing was inserted. Add a value to each row.',
        details: { columns, ...(index !== null && { index }) },
      },
    );
  },
  keyNotFound: (id: string) =>
    new RowhouseError('key_not_found', `The project has no key "${clip(id)}".`, {
      hint: 'List the keys with GET /api/dbaas/v2/projects/:slug/keys.',
    }),
  userNotFound: (message = 'The project has no such user.') =>
    new RowhouseError('user_not_found', message, {
      hint: 'List the users with GET /api/dbaas/v2/projects/:slug/auth/users.',
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
      'A transaction of the project holds a lock on its users. Nothing was changed.',
      {
        retryAfterS: 1,
        hint: 'Retry later. If this persists, look for a long or open transaction that uses auth.users, for example on a direct connection.',
        cause,
      },
    ),
  rateLimited: (message: string, retryAfterS: number) =>
    new RowhouseError('rate_limited', message, {
      retryAfterS,
      hint: `Retry in ${retryAfterS} s.`,
    }),
  routeNotFound: (method: string, path: string) =>
    new RowhouseError('route_not_found', `There is no endpoint ${method} ${clip(path)}.`, {
      hint: 'GET /docs lists all endpoints.',
    }),
  methodNotAllowed: (method: string, allowed: string[]) =>
    new RowhouseError('method_not_allowed', `This endpoint does not support ${method}.`, {
      hint: `Use ${allowed.join(' or ')}.`,
      details: { allowed },
    }),
  requestTimeout: () =>
    new RowhouseError('request_timeout', 'The request did not arrive completely in time.', {
      hint: 'Send it again.',
    }),
  headersTooLarge: () =>
    new RowhouseError('headers_too_large', 'The request headers are too large.', {
      hint: 'Send fewer or shorter headers. The limit is 16 KB for all headers together.',
    }),
  slugTaken: (slug: string) =>
    new RowhouseError('slug_taken', `The slug "${slug}" is taken.`, {
      hint: 'Choose another slug, or omit "slug" to get one that is derived from the name.',
    }),
  conflict: (message: string, hint: string) =>
    new RowhouseError('conflict', message, { hint, details: { retryable: false } }),
  /** `what`: the statement that is in the way. */
  projectInUse: (message: string, what: { running_ms?: number; query?: string }) =>
    new RowhouseError('conflict', message, {
      hint: 'Retry when it has ended. Other requests of the project went on meanwhile.',
      details: { retryable: true, ...what },
      retryAfterS: 10,
    }),
  repeatRunning: () =>
    new RowhouseError('conflict', 'The first request with this Idempotency-Key is still running.', {
      hint: 'Send the same request again later. It gets the response of the first one.',
      details: { retryable: true },
      retryAfterS: 1,
    }),
  repeatDiffers: () =>
    new RowhouseError('conflict', 'This Idempotency-Key was already used for a different request.', {
      hint: 'The query string or the body differs. Nothing was run. Use a new key for a new request.',
      details: { retryable: false },
    }),
  repeatNotKept: (status: number | null) =>
    new RowhouseError(
      'conflict',
      'The request with this Idempotency-Key ran, but its response was not stored.',
      {
        hint: 'The response was streamed or too large to store. Nothing was run again. Read the result with a separate request.',
        details: { retryable: false, ran: true, ...(status !== null && { status }) },
      },
    ),
  repeatUnknown: () =>
    new RowhouseError(
      'outcome_unknown',
      'The first request with this Idempotency-Key started, but its outcome is unknown.',
      {
        status: 409,
        hint: 'It may have taken effect. Nothing was run again. Check the data; if it did not take effect, send the request with a new key.',
        details: { retryable: false },
      },
    ),
  tooManyRepeats: (max: number) =>
    new RowhouseError(
      'rate_limited',
      `The limit of ${max} Idempotency-Keys in 24 hours is reached. Nothing was run.`,
      {
        hint: 'Send the request later, or without an Idempotency-Key. Repeats of earlier requests still get their responses.',
        retryAfterS: 60,
      },
    ),
  payloadTooLarge: (maxBytes: number) =>
    new RowhouseError(
      'payload_too_large',
      `The request body is larger than ${formatBytes(maxBytes)}, the limit of this endpoint.`,
      {
        hint:
          maxBytes < 1024 ** 2
            ? 'Send a smaller body.'
            : 'Split it into several requests. To load many rows, send CSV or JSON lines to POST …/tables/:table, which accepts them in any size.',
        details: { max_bytes: maxBytes },
      },
    ),
  unsupportedMediaType: (type: string | undefined) =>
    new RowhouseError(
      'unsupported_media_type',
      type
        ? `This endpoint does not accept a body of type "${clip(type)}".`
        : 'The request body has no content type.',
      { hint: 'Send JSON with "Content-Type: application/json".' },
    ),
  overloaded: (message: string, retryAfterS: number) =>
    new RowhouseError('overloaded', message, {
      retryAfterS,
      hint: `Retry in ${retryAfterS} s, or send fewer requests at a time.`,
    }),
  /** `isFull`: the project is full already; otherwise it would be after this change. */
  projectFull: (facts: { limit_mb: number; size_mb: number }, isFull = true) =>
    new RowhouseError(
      'project_full',
      isFull
        ? `The project is full: it stores ${facts.size_mb} MB and limit_mb is ${facts.limit_mb}. Nothing was changed.`
        : `This change would exceed limit_mb: the project stores ${facts.size_mb} MB and limit_mb is ${facts.limit_mb}. Nothing was changed.`,
      {
        hint: 'Delete rows or drop tables, then reclaim their space with POST …/compact. Or raise limit_mb with an account key: PATCH /api/dbaas/v2/projects/:slug. Reads, DELETE, TRUNCATE, DROP and VACUUM still work.',
        details: facts,
      },
    ),
  needsMoreRoom: (facts: { limit_mb: number; size_mb: number }, needsMb: number) =>
    new RowhouseError(
      'project_full',
      `A statement that commits by itself (CONCURRENTLY, or a procedure with COMMIT) requires ${needsMb} MB of free space below limit_mb: the project stores ${facts.size_mb} MB and limit_mb is ${facts.limit_mb}. Nothing was changed.`,
      {
        hint: 'Omit CONCURRENTLY or COMMIT, delete data, or raise limit_mb with an account key: PATCH /api/dbaas/v2/projects/:slug.',
        details: facts,
      },
    ),
  stoppedHalfway: (facts: { limit_mb: number; size_mb: number }) =>
    new RowhouseError(
      'project_full',
      `The statement was stopped because the project came too close to limit_mb, which is ${facts.limit_mb}. Everything that it had already committed remains.`,
      {
        hint: 'Delete data, do less per statement, or raise limit_mb with an account key: PATCH /api/dbaas/v2/projects/:slug.',
        details: facts,
      },
    ),
  /** The machine's disk is full, not the project. Without facts, PostgreSQL itself ran out of disk space. */
  serverFull: (facts?: { free_mb: number; reserve_mb: number }, extras: Extras = {}) =>
    new RowhouseError('server_full', 'The disk of the service is nearly full. Nothing was changed.', {
      retryAfterS: 30,
      hint: diskHint,
      ...(facts && { details: facts }),
      ...extras,
    }),
  /** For a statement that may have committed part of its work. */
  stoppedForDisk: () =>
    new RowhouseError(
      'server_full',
      'The statement was stopped because the disk of the service is nearly full. It was rolled back, except for anything that a CALL or DO had already committed.',
      { retryAfterS: 30, hint: diskHint },
    ),
  unavailable: (cause: unknown) =>
    new RowhouseError('unavailable', 'PostgreSQL is unavailable. Nothing was changed.', {
      retryAfterS: 1,
      hint: 'Retry in a few seconds.',
      cause,
    }),
  starting: () =>
    new RowhouseError('unavailable', 'The service is starting.', {
      retryAfterS: 1,
      hint: 'Retry in a few seconds.',
    }),
  usageTimeout: (timeoutMs: number) =>
    new RowhouseError('query_timeout', `Measuring the tables took longer than ${timeoutMs} ms.`, {
      hint: 'Retry later: the machine is busy, or the project has very many tables. GET /api/dbaas/v2/projects/:slug returns the total size.',
      details: { timeout_ms: timeoutMs },
    }),
  usageLocked: (cause: unknown) =>
    new RowhouseError(
      'unavailable',
      'The tables of this project could not be measured because they are locked repeatedly.',
      {
        retryAfterS: 2,
        hint: 'Retry later. GET /api/dbaas/v2/projects/:slug returns the total size.',
        cause,
      },
    ),
  exportRunning: () =>
    new RowhouseError('rate_limited', 'An export of this project is running already.', {
      retryAfterS: 10,
      hint: 'Try again when it has ended. A project has one export at a time.',
    }),
  exportLocked: (cause: unknown) =>
    new RowhouseError('conflict', 'Tables of this project are locked, so it cannot be exported now.', {
      retryAfterS: 5,
      hint: 'Try again when the statement that locks them has ended: ALTER TABLE, TRUNCATE, VACUUM FULL, REINDEX, or a transaction that is still open after one of them.',
      details: { retryable: true },
      cause,
    }),
  /** `reason`: PostgreSQL's words. */
  exportRefused: (reason: string) =>
    new RowhouseError('conflict', `Not all of this project can be read: ${clip(reason)}.`, {
      hint: "An export reads with the rights of the owners. Grant SELECT on the table back to its owner; or, if row security is forced on it, ALTER TABLE … NO FORCE ROW LEVEL SECURITY, or give the service's own role BYPASSRLS.",
      details: { retryable: false },
    }),
  /** `reason`: the words of pg_dump. */
  exportFailed: (reason: string, cause: unknown) =>
    new RowhouseError('conflict', `pg_dump could not export this project: ${clip(reason)}.`, {
      hint: 'Try again. If it fails in the same way, change the object that the message names.',
      details: { retryable: true },
      cause,
    }),
  brokenDump: (problem: string, hint?: string) =>
    new RowhouseError('invalid_dump', `The dump cannot be imported: ${clip(problem)}.`, {
      ...(hint && { hint }),
    }),
  /** `problem`: what PostgreSQL says about an entry of the dump. */
  importFailed: (problem: string) =>
    new RowhouseError('invalid_dump', `The dump cannot be imported: ${problem.slice(0, 500)}`, {
      hint: 'Nothing was left behind. Change what the message names, dump again, and import that.',
    }),
  dumpTooLarge: (maxMb: number) =>
    new RowhouseError('payload_too_large', `The dump is larger than ${maxMb} MB, four times limit_mb.`, {
      hint: 'Import it with a higher limit_mb, or dump with --format=custom, which compresses.',
      details: { max_bytes: maxMb * 1024 * 1024 },
    }),
  /** `problem`: about the server that is to be copied. Never its address, which holds a password. */
  importSource: (problem: string) =>
    new RowhouseError('import_source_failed', `The server cannot be copied: ${clip(problem)}`, {
      hint: 'Check the address, the password, and that the server accepts connections from here. Or run pg_dump yourself, and upload the file.',
    }),
  importSourcePrivate: () =>
    new RowhouseError(
      'import_source_failed',
      'The server is in a private network, which imports may not reach.',
      {
        hint: 'Upload a dump instead; or set ROWHOUSE_IMPORT_PRIVATE_HOSTS=true, if every holder of an account key may reach the networks of this machine.',
      },
    ),
  importTooSlow: (limitMs: number) =>
    new RowhouseError(
      'query_timeout',
      `A statement of the dump took longer than ${Math.round(limitMs / 1000)} s.`,
      {
        hint: 'Nothing was left behind. Look for functions in defaults, checks and triggers that do not end.',
      },
    ),
  importTooLong: (limitMs: number) =>
    new RowhouseError(
      'query_timeout',
      `The import took longer than ${Math.round(limitMs / 60_000)} minutes.`,
      {
        hint: 'Nothing was left behind. Import it in parts, or when the machine is less busy.',
      },
    ),
  exportTooNew: (serverMajor: number) =>
    new RowhouseError(
      'unavailable',
      `This project is on PostgreSQL ${serverMajor}, which is newer than the pg_dump of the service.`,
      { hint: `Install pg_dump ${serverMajor} or newer on the machine that runs the service.` },
    ),
  backupsOff: () =>
    new RowhouseError('backups_off', 'Backups are turned off.', {
      hint: 'Set ROWHOUSE_BACKUP_URL to a folder (file:/path) or a bucket (s3://bucket/prefix), and restart the service.',
    }),
  backupsDamaged: (problems: string[]) =>
    new RowhouseError('backup_failed', `${problems.length} objects of the backups are damaged or missing.`, {
      hint: 'Take a new full backup now: POST /api/dbaas/v2/backups with {"kind": "full"}. Then look for the cause in the storage.',
      details: { problems },
    }),
  backupFailed: (message: string, hint: string, cause: unknown) =>
    new RowhouseError('backup_failed', message, { hint, cause }),
  messageNotSent: (cause: unknown) =>
    new RowhouseError('unavailable', 'The message could not be sent.', {
      retryAfterS: 5,
      hint: 'Retry later. If this persists, the operator finds the reason in the log of the service under this request id.',
      cause,
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
  outcomeUnknown: (cause: unknown, message = 'The connection to PostgreSQL was lost during the change.') =>
    new RowhouseError('outcome_unknown', message, {
      retryAfterS: 1,
      hint: 'The change may have taken effect. Check the data before you send it again.',
      cause,
    }),
  /** The deadline of the request has passed, and nothing was sent that could change anything. */
  noAnswer: () =>
    new RowhouseError('unavailable', 'PostgreSQL did not answer in time. Nothing was changed.', {
      retryAfterS: 1,
      hint: 'Retry in a few seconds. For a statement, "timeout_ms" allows more time.',
    }),
  noAnswerToChange: () =>
    errors.outcomeUnknown(undefined, 'PostgreSQL did not answer in time during the change.'),
  internal: (cause: unknown) =>
    new RowhouseError('internal_error', 'The service failed because of an internal error.', {
      hint: 'The operator finds the cause in the log of the service under this request id.',
      cause,
    }),
};

/** As people write it: "256 KB", "32 MB". All limits are whole numbers of these units. */
function formatBytes(bytes: number): string {
  const mb = bytes / 1024 ** 2;
  return Number.isInteger(mb) ? `${mb} MB` : `${bytes / 1024} KB`;
}

/** A message repeats no more of the caller's input than a person would read. */
function clip(text: string): string {
  const printable = text.replace(/\p{C}/gu, '�');
  return printable.length > 80 ? `${printable.slice(0, 80)}…` : printable;
}
