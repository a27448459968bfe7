// Errors of the request itself: its form, its key, its size, its repetition.
import type { Problem, Role, Scope } from '@rowhouse/api';
import { clip, formatBytes, RowhouseError } from './rowhouse-error.ts';

const keyHint = 'Send it as "Authorization: Bearer <API_KEY>" or "X-API-Key: <API_KEY>".';

/** The actions that a publishable key cannot do, by the scope that they require. */
const refusedToPublishable: Record<Scope, string> = {
  query: 'run SQL',
  'query:read': 'run SQL',
  'tables:read': 'list tables or read the schema',
  'tables:write': 'change tables',
  auth: 'manage sign-in',
  manage: 'manage the project',
};

export const requestErrors = {
  invalidRequest: (problems: Problem[], hint?: string) =>
    new RowhouseError(
      'invalid_request',
      problems.map(({ path, problem }) => (path ? `${path}: ${problem}` : problem)).join('; '),
      { details: problems, ...(hint && { hint }) },
    ),
  invalidJson: (problem: string) =>
    new RowhouseError('invalid_json', `The request body is not valid JSON: ${problem}`),
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
    requestErrors.invalidToken(
      'The session of this access token has ended.',
      'Sign in again with POST …/auth/signin.',
    ),
  forbidden: (message: string, hint: string) => new RowhouseError('forbidden', message, { hint }),
  roleForbidden: (role: Role) =>
    new RowhouseError('forbidden', `The role "${role}" does not allow this.`, {
      hint: 'Ask an owner or an admin of the account for another role.',
    }),
  operatorForbidden: () =>
    new RowhouseError('forbidden', 'An operator key reaches accounts and servers, and no project.', {
      hint: 'Use an account key (rh_acct_…) or the key of the project.',
    }),
  accountSuspended: (reason: string) =>
    new RowhouseError('account_suspended', `This account is suspended: ${clip(reason)}`, {
      hint: 'Its data is kept. Contact the operator of this installation.',
    }),
  scopeMissing: (scope: Scope) =>
    new RowhouseError('forbidden', `This API key lacks the scope "${scope}".`, {
      hint: `Use the project key, or issue a key with the scope "${scope}": POST …/keys.`,
    }),
  publishableKey: (scope: Scope) =>
    new RowhouseError('forbidden', `A publishable key cannot ${refusedToPublishable[scope]}.`, {
      hint: 'It can sign users up and in, and read and write rows with …/tables/:table where row security allows it. For anything else, use the project key or a scoped key on your server.',
    }),
  keyNotFound: (id: string) =>
    new RowhouseError('key_not_found', `The project has no key "${clip(id)}".`, {
      hint: 'List the keys with GET /api/dbaas/v2/projects/:slug/keys.',
    }),
  accountKeyNotFound: (id: string) =>
    new RowhouseError('key_not_found', `The account has no key "${clip(id)}".`, {
      hint: 'List the keys with GET /api/dbaas/v2/account/keys.',
    }),
  accountNotFound: (id: string) =>
    new RowhouseError('account_not_found', `There is no account "${clip(id)}".`, {
      hint: 'List the accounts with GET /api/dbaas/v2/accounts.',
    }),
  accountLimit: (message: string) =>
    new RowhouseError('account_limit', message, {
      hint: 'Delete a project, lower a limit_mb, or ask the operator of this installation for more.',
    }),
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
  conflict: (message: string, hint: string) =>
    new RowhouseError('conflict', message, { hint, details: { retryable: false } }),
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
  /** `what`: the kind of work, in the plural. `own`: how many of the account's there are. */
  shareInUse: (what: string, own: number, retryAfterS: number) =>
    new RowhouseError(
      'overloaded',
      `The ${what} of this account use up its share: ${own} of them are running or waiting.`,
      { retryAfterS, hint: 'Try again when one of them has ended. Work of other accounts does not count.' },
    ),
  overloaded: (message: string, retryAfterS: number) =>
    new RowhouseError('overloaded', message, {
      retryAfterS,
      hint: `Retry in ${retryAfterS} s, or send fewer requests at a time.`,
    }),
};
