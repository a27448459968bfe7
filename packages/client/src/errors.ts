// The one error that everything here throws, and a way to have it as a value.

/** What went wrong, for programs: a code of the service, or one of the client's own. A later service may add codes. */
export type ErrorCode = ClientErrorCode | ServiceErrorCode | (string & {});

/** Every error code of the service. */
export type ServiceErrorCode =
  | 'conflict'
  | 'constraint_violation'
  | 'email_taken'
  | 'forbidden'
  | 'headers_too_large'
  | 'internal_error'
  | 'invalid_api_key'
  | 'invalid_code'
  | 'invalid_credentials'
  | 'invalid_json'
  | 'invalid_request'
  | 'invalid_token'
  | 'key_not_found'
  | 'method_not_allowed'
  | 'missing_api_key'
  | 'multiple_statements'
  | 'outcome_unknown'
  | 'overloaded'
  | 'payload_too_large'
  | 'project_full'
  | 'project_not_found'
  | 'query_timeout'
  | 'rate_limited'
  | 'request_timeout'
  | 'route_not_found'
  | 'row_not_found'
  | 'server_full'
  | 'slug_taken'
  | 'sql_error'
  | 'statement_not_allowed'
  | 'table_not_found'
  | 'unavailable'
  | 'unsupported_media_type'
  | 'user_not_found';

/** `invalid_response`: what answered is not Rowhouse. `unsafe_number`: a double cannot hold a number. */
export type ClientErrorCode = 'aborted' | 'invalid_response' | 'network_error' | 'timeout' | 'unsafe_number';

/** PostgreSQL's own words about a statement. */
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

/** What an error tells beside its code and message. */
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
 * Everything that goes wrong, in the service, on the way, or here.
 *
 * @example
 * try {
 *   await db.query('select nope');
 * } catch (error) {
 *   if (error instanceof RowhouseError) console.log(error.code, error.sql?.state); // sql_error 42703
 * }
 */
export class RowhouseError extends Error {
  /** Stable, for programs. */
  declare readonly code: ErrorCode;
  /** Of HTTP; 0 if there was no answer. */
  declare readonly status: number;
  /** The next step, where there is one. */
  declare readonly hint: string | undefined;
  declare readonly sql: SqlProblem | undefined;
  /** What the service's log has it under. */
  declare readonly requestId: string | undefined;
  /** Sending the same again does no harm and may help. */
  declare readonly retryable: boolean;
  /** After so many seconds, if the service said so. */
  declare readonly retryAfterS: number | undefined;
  declare readonly details: unknown;

  constructor(code: ErrorCode, message: string, { cause, ...extras }: ErrorExtras = {}) {
    super(message, { cause });
    Object.assign(this, { name, code, status: 0, retryable: false }, extras);
  }
}

const name = 'RowhouseError';

/** What {@link safe} gives: one of the two is null. */
export type Safe<T> = { data: T; error: null } | { data: null; error: RowhouseError };

/**
 * The error as a value instead of a throw. What is no {@link RowhouseError} is still thrown: it is a bug.
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

/** By name: a program may hold the module twice, as ESM and as CommonJS. */
export function isRowhouseError(error: unknown): error is RowhouseError {
  return (error as Error | null)?.name === name;
}

/** The caller's own mistake, seen before anything was sent. */
export function misuse(message: string, hint?: string): RowhouseError {
  return new RowhouseError('invalid_request', message, { hint });
}
