// All error codes of the API with their HTTP status. Server, client and docs share this table.

/** Codes are stable. Messages are for people and can change. */
export const errorCodes = {
  invalid_request: {
    status: 400,
    meaning: 'The request does not match the description of the API. details lists each problem.',
  },
  invalid_json: { status: 400, meaning: 'The body is not valid JSON in UTF-8.' },
  sql_error: {
    status: 400,
    meaning:
      "PostgreSQL rejected the statement. error.sql contains the fields of PostgreSQL's error. The status is 403 for state 42501.",
  },
  multiple_statements: { status: 400, meaning: 'The query contains more than one statement.' },
  statement_not_allowed: {
    status: 400,
    meaning: 'This kind of statement is not allowed over HTTP. The hint names an alternative.',
  },
  invalid_code: { status: 400, meaning: 'The one-time code is invalid, already used, or expired.' },
  missing_api_key: { status: 401, meaning: 'No API key was sent.' },
  invalid_api_key: { status: 401, meaning: 'The API key is mistyped, unknown, expired, or revoked.' },
  invalid_credentials: { status: 401, meaning: 'The email address or the password is wrong.' },
  invalid_token: { status: 401, meaning: "The user's access token is invalid for this project." },
  session_required: {
    status: 401,
    meaning: 'The session of the console is missing, has ended, or has expired. Sign in again.',
  },
  forbidden: {
    status: 403,
    meaning: 'The key is valid, but it does not allow this request. The hint names what is missing.',
  },
  second_factor_required: {
    status: 403,
    meaning: 'The sign-in needs a code of the second factor, or the account requires a second factor.',
  },
  confirmation_required: {
    status: 403,
    meaning: 'The console shows keys and connection strings only shortly after the API key was entered.',
  },
  account_limit: {
    status: 403,
    meaning: 'The account has as many projects, or as much limit_mb together, as its operator allows.',
  },
  account_suspended: {
    status: 403,
    meaning: 'The operator has suspended the account. The message says why. Its data is kept.',
  },
  project_not_found: { status: 404, meaning: 'The project does not exist, or the key has no access to it.' },
  table_not_found: {
    status: 404,
    meaning: 'The table or view does not exist, or the key has no access to it.',
  },
  row_not_found: { status: 404, meaning: 'The row does not exist.' },
  user_not_found: { status: 404, meaning: 'The user does not exist.' },
  upload_not_found: { status: 404, meaning: 'The upload does not exist, was imported, or has expired.' },
  job_not_found: { status: 404, meaning: 'The job does not exist, or it ended more than 30 days ago.' },
  query_not_found: { status: 404, meaning: 'The saved query, draft or entry of the history does not exist.' },
  snapshot_not_found: { status: 404, meaning: 'The project has no snapshot with this name.' },
  session_not_found: { status: 404, meaning: 'The session does not exist, or it has ended.' },
  server_not_found: { status: 404, meaning: 'The server does not exist.' },
  account_not_found: { status: 404, meaning: 'The account does not exist.' },
  member_not_found: { status: 404, meaning: 'The member or the invitation does not exist.' },
  key_not_found: { status: 404, meaning: 'The key does not exist.' },
  route_not_found: { status: 404, meaning: 'There is no endpoint at this path.' },
  method_not_allowed: {
    status: 405,
    meaning: 'The endpoint does not support this method. The Allow header lists the methods.',
  },
  request_timeout: { status: 408, meaning: 'The request did not arrive completely in time.' },
  email_taken: { status: 409, meaning: 'A user with this email address already exists.' },
  slug_taken: { status: 409, meaning: 'Another project has this slug.' },
  backups_off: { status: 409, meaning: 'The operator has turned backups off.' },
  project_not_ready: {
    status: 409,
    meaning: 'A job is still filling the project. details.job contains its id.',
  },
  conflict: {
    status: 409,
    meaning: 'The change conflicts with the current state. details.retryable tells whether a retry can help.',
  },
  payload_too_large: { status: 413, meaning: 'The request body is larger than the limit of the endpoint.' },
  unsupported_media_type: {
    status: 415,
    meaning: 'The endpoint does not support the content type of the body.',
  },
  invalid_dump: {
    status: 422,
    meaning: 'The dump is damaged, of an unknown form, or holds something that a project cannot have.',
  },
  import_source_failed: {
    status: 422,
    meaning: 'The server from which a project was to be imported cannot be reached or read.',
  },
  constraint_violation: { status: 422, meaning: 'A value violates a constraint or does not fit its type.' },
  rate_limited: { status: 429, meaning: 'Too many requests. Retry after Retry-After seconds.' },
  overloaded: { status: 429, meaning: 'Too many requests are waiting. Retry after Retry-After seconds.' },
  headers_too_large: {
    status: 431,
    meaning: 'The request headers are larger than the limit of the service.',
  },
  internal_error: {
    status: 500,
    meaning: 'A bug in the service. The log contains the cause under the request id.',
  },
  unavailable: {
    status: 503,
    meaning:
      'PostgreSQL is unavailable, the project is paused or its users are locked, or a message could not be sent. Nothing was changed. Retry after Retry-After seconds.',
  },
  backup_failed: {
    status: 503,
    meaning: 'The storage of the backups, or PostgreSQL, did not do what a backup needs.',
  },
  outcome_unknown: {
    status: 503,
    meaning:
      'The connection to PostgreSQL was lost during a change, or PostgreSQL did not answer in time. Check whether the change was made before you retry. The status is 409 for a repeat of such a request by Idempotency-Key.',
  },
  query_timeout: { status: 504, meaning: 'The statement exceeded its timeout and was cancelled.' },
  project_full: {
    status: 507,
    meaning: 'The project has reached limit_mb. Delete data, or raise the limit.',
  },
  server_full: {
    status: 507,
    meaning:
      'The disk of the service is nearly full. Reads and deletes still work. Retry after Retry-After seconds.',
  },
} as const;

export type ErrorCode = keyof typeof errorCodes;
