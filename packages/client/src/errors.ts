// The error class of the client, and `safe`, which returns errors as values.

/** What went wrong, for programs: a code of the service, or one of the client's own. A later service may add codes. */
export type ErrorCode = ClientErrorCode | ServiceErrorCode | (string & {});

/** Every error code of the service. */
export type ServiceErrorCode =
  | 'account_limit'
  | 'account_not_found'
  | 'account_suspended'
  | 'backup_failed'
  | 'backups_off'
  | 'confirmation_required'
  | 'conflict'
  | 'constraint_violation'
  | 'email_taken'
  | 'forbidden'
  | 'headers_too_large'
  | 'import_source_failed'
  | 'internal_error'
  | 'invalid_api_key'
  | 'invalid_code'
  | 'invalid_credentials'
  | 'invalid_dump'
  | 'invalid_json'
  | 'invalid_request'
  | 'invalid_token'
  | 'job_not_found'
  | 'key_not_found'
  | 'member_not_found'
  | 'method_not_allowed'
  | 'missing_api_key'
  | 'multiple_statements'
  | 'outcome_unknown'
  | 'overloaded'
  | 'payload_too_large'
  | 'project_full'
  | 'project_not_found'
  | 'project_not_ready'
  | 'query_not_found'
  | 'query_timeout'
  | 'rate_limited'
  | 'request_timeout'
  | 'route_not_found'
  | 'row_not_found'
  | 'second_factor_required'
  | 'server_full'
  | 'server_not_found'
  | 'session_not_found'
  | 'session_required'
  | 'slug_taken'
  | 'snapshot_not_found'
  | 'sql_error'
  | 'statement_not_allowed'
  | 'table_not_found'
  | 'unavailable'
  | 'unsupported_media_type'
  | 'upload_not_found'
  | 'user_not_found';

/** `invalid_response`: the response is not from Rowhouse. `unsafe_number`: a JavaScript number would round a value. */
export type ClientErrorCode = 'aborted' | 'invalid_response' | 'network_error' | 'timeout' | 'unsafe_number';

/** The fields of PostgreSQL's error. */
export type SqlProblem = {
  state?: string;
  position?: string;
  detail?: string;
  hint?: string;
  schema?: string;
  table?: string;
  column?: string;
  constraint?: string;
};

/** The properties of an error besides its code and message. */
export type ErrorExtras = {
  status?: number | undefined;
  hint?: string | undefined;
  sql?: SqlProblem | undefined;
  requestId?: string | undefined;
  retryable?: boolean | undefined;
  retryAfterS?: number | undefined;
  details?: unknown;
  cause?: unknown;
};

/**
 * An error of the service, of the network, or of the client.
 *
 * @example
 * try {
 *   await db.query('select nope');
 * } catch (error) {
 *   if (error instanceof RowhouseError) console.log(error.code, error.sql?.state); // sql_error 42703
 * }
 */
export class RowhouseError extends Error {
  /** A stable code for programs. */
  declare readonly code: ErrorCode;
  /** The HTTP status; 0 without a response. */
  declare readonly status: number;
  /** The next action. */
  declare readonly hint: string | undefined;
  declare readonly sql: SqlProblem | undefined;
  /** The id of the request in the log of the service. */
  declare readonly requestId: string | undefined;
  /** true if it is safe to send the same request again, and that may help. */
  declare readonly retryable: boolean;
  /** The number of seconds to wait, if the service sent one. */
  declare readonly retryAfterS: number | undefined;
  declare readonly details: unknown;

  /** By its name: a program may load the module twice, as ESM, as CommonJS, or with /admin. */
  static override [Symbol.hasInstance](error: unknown): boolean {
    return isRowhouseError(error);
  }

  constructor(code: ErrorCode, message: string, { cause, ...extras }: ErrorExtras = {}) {
    super(message, { cause });
    Object.assign(this, { name, code, status: 0, retryable: false }, extras);
  }
}

const name = 'RowhouseError';

/** The result of {@link safe}: one of the two is null. */
export type Safe<T> = { data: T; error: null } | { data: null; error: RowhouseError };

/**
 * Returns the error as a value instead of throwing it. Errors other than {@link RowhouseError} are still thrown: they are
 * bugs.
 *
 * @example
 * const { data, error } = await safe(db.signIn({ email, password }));
 * if (error) return show(error.message);
 * welcome(data.user);
 */
export async function safe<T>(promise: PromiseLike<T>): Promise<Safe<T>> {
  try {
    return { data: await promise, error: null };
  } catch (error) {
    if (isRowhouseError(error)) return { data: null, error };
    throw error;
  }
}

/** Compares the name. */
export function isRowhouseError(error: unknown): error is RowhouseError {
  return (error as Error | null)?.name === name;
}

/** A mistake in the use of the client, found before anything was sent. */
export function misuse(message: string, hint?: string): RowhouseError {
  return new RowhouseError('invalid_request', message, { hint });
}
