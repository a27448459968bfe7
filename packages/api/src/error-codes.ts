// Every error code of the API with its HTTP status: the one table that server, client and docs share.

/** Codes are stable; messages are for people and may change. */
export const errorCodes = {
  invalid_request: {
    status: 400,
    meaning: 'The request is not as the API describes it; details list each problem.',
  },
  invalid_json: { status: 400, meaning: 'The body is not valid JSON in UTF-8.' },
  sql_error: {
    status: 400,
    meaning: "PostgreSQL refused the caller's SQL; error.sql has its words. Status 403 with state 42501.",
  },
  multiple_statements: { status: 400, meaning: 'The query holds more than one statement.' },
  statement_not_allowed: { status: 400, meaning: 'This statement makes no sense over HTTP; see the hint.' },
  invalid_code: { status: 400, meaning: 'The one-time code is not one, was used, or is past its time.' },
  missing_api_key: { status: 401, meaning: 'No API key was sent.' },
  invalid_api_key: { status: 401, meaning: 'The API key is mistyped, unknown, expired or revoked.' },
  invalid_credentials: { status: 401, meaning: 'Wrong e-mail or password.' },
  invalid_token: { status: 401, meaning: "The user's access token is not valid here." },
  forbidden: { status: 403, meaning: 'The key is valid but may not do this; the hint names what it lacks.' },
  project_not_found: { status: 404, meaning: 'There is no such project, or the key may not see it.' },
  table_not_found: {
    status: 404,
    meaning: 'The project has no such table or view, or the key may not use it.',
  },
  row_not_found: { status: 404, meaning: 'There is no such row.' },
  user_not_found: { status: 404, meaning: 'The project has no such user.' },
  key_not_found: { status: 404, meaning: 'The project has no such key.' },
  route_not_found: { status: 404, meaning: 'There is nothing at this path.' },
  method_not_allowed: {
    status: 405,
    meaning: 'The path exists, but not with this method; see the Allow header.',
  },
  request_timeout: { status: 408, meaning: 'The request was sent too slowly.' },
  email_taken: { status: 409, meaning: 'The project has a user with this e-mail already.' },
  slug_taken: { status: 409, meaning: 'Another project has the slug that was asked for.' },
  conflict: {
    status: 409,
    meaning: 'The change does not fit the present state; details.retryable says whether a repeat can help.',
  },
  payload_too_large: { status: 413, meaning: 'The body is larger than this endpoint takes.' },
  unsupported_media_type: {
    status: 415,
    meaning: 'The body has a content type this endpoint does not take.',
  },
  constraint_violation: { status: 422, meaning: 'A value breaks a constraint or does not fit its type.' },
  rate_limited: { status: 429, meaning: 'Too many requests; try again after Retry-After seconds.' },
  overloaded: { status: 429, meaning: 'Too much is waiting already; try again after Retry-After seconds.' },
  headers_too_large: { status: 431, meaning: 'The request headers are larger than the service takes.' },
  internal_error: { status: 500, meaning: 'A fault of the service; the log has it under the request id.' },
  unavailable: {
    status: 503,
    meaning:
      'PostgreSQL is starting or does not answer, or a message could not be sent. Nothing was changed; try again after Retry-After seconds.',
  },
  outcome_unknown: {
    status: 503,
    meaning:
      'The connection to PostgreSQL broke during a change, or no answer came in time; look whether it was made before trying again. Status 409 for a repeat by Idempotency-Key of such a request.',
  },
  query_timeout: { status: 504, meaning: 'The statement ran longer than its time and was cancelled.' },
  project_full: {
    status: 507,
    meaning: 'The project has reached limit_mb; deleting and raising the limit still work.',
  },
  server_full: {
    status: 507,
    meaning:
      "The service's disk is nearly full; reading and deleting still work. Try again after Retry-After seconds.",
  },
} as const;

export type ErrorCode = keyof typeof errorCodes;
