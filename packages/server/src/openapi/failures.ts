// The failures that an operation documents: for each status the codes, with their meanings.
import { type ErrorCode, errorCodes } from '@rowhouse/api';
import { neonStates } from '../errors/neon-states.ts';

export type Traits = Readonly<{
  method: string;
  /** With an API key. The others are those of the service itself. */
  isKeyed: boolean;
  takesToken: boolean;
  hasBody: boolean;
  isOfProject: boolean;
}>;

/** By status. Shared by all operations that can fail so, and no others with the same status differ from them. */
const shared = {
  401: { name: 'Unauthorized', codes: ['missing_api_key', 'invalid_api_key'] },
  429: { name: 'TooManyRequests', codes: ['rate_limited', 'overloaded'] },
  431: { name: 'HeadersTooLarge', codes: ['headers_too_large'] },
  500: { name: 'InternalError', codes: ['internal_error'] },
} as const satisfies Record<number, { name: string; codes: readonly ErrorCode[] }>;

type Reference = { $ref: string };
type Response = { description: string; content: Record<string, { schema: Reference }> };

/** `body`: the name of the schema of failures. */
export function failuresOf(
  traits: Traits,
  more: readonly ErrorCode[],
  body = 'ErrorBody',
): Record<string, Response | Reference> {
  const byStatus = new Map<number, Set<ErrorCode>>();
  for (const code of [...common(traits), ...more])
    for (const status of statusesOf(code, traits.method, body))
      byStatus.set(status, (byStatus.get(status) ?? new Set()).add(code));
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => {
      const same = shared[status as keyof typeof shared];
      const isShared = body === 'ErrorBody' && same && sameCodes(codes, same.codes);
      return [
        String(status),
        isShared ? { $ref: `#/components/responses/${same.name}` } : responseOf([...codes], body),
      ];
    }),
  );
}

/** The responses that failuresOf refers to, by name. */
export function sharedFailures(): Record<string, Response> {
  const named = Object.values(shared).map(({ name, codes }) => [name, responseOf(codes, 'ErrorBody')]);
  return { ...Object.fromEntries(named), Failure: failure('Any other failure.', 'ErrorBody') };
}

/** For every status that is not documented, such as 405. */
export const otherFailure: Reference = { $ref: '#/components/responses/Failure' };

function common({ method, isKeyed, takesToken, hasBody, isOfProject }: Traits): ErrorCode[] {
  const isRead = method === 'GET';
  return [
    'headers_too_large',
    'internal_error',
    'unavailable',
    ...codesIf(isKeyed, 'invalid_request', 'missing_api_key', 'invalid_api_key', 'forbidden'),
    ...codesIf(isKeyed, 'account_suspended', 'rate_limited', 'overloaded'),
    ...codesIf(takesToken, 'invalid_token'),
    ...codesIf(hasBody, 'invalid_json', 'request_timeout', 'payload_too_large', 'unsupported_media_type'),
    ...codesIf(isOfProject, 'project_not_found', 'project_not_ready'),
    ...codesIf(!isRead, 'outcome_unknown'),
    // A repeat with an Idempotency-Key whose first request differs, or still runs.
    ...codesIf(method === 'POST', 'conflict', 'request_timeout', 'payload_too_large'),
  ];
}

function codesIf(condition: boolean, ...codes: ErrorCode[]): ErrorCode[] {
  return condition ? codes : [];
}

/** Most codes have one status. */
function statusesOf(code: ErrorCode, method: string, body: string): number[] {
  const { status } = errorCodes[code];
  // A conflict need not come from PostgreSQL.
  if (body === 'NeonErrorBody' && (Object.hasOwn(neonStates, code) || ofPostgres.includes(code)))
    return code === 'conflict' ? [400, status] : [400];
  if (code === 'sql_error') return [status, 403];
  return code === 'outcome_unknown' && method === 'POST' ? [status, 409] : [status];
}

/** They have an SQLSTATE. */
const ofPostgres: readonly ErrorCode[] = ['conflict', 'constraint_violation'];

function sameCodes(codes: ReadonlySet<ErrorCode>, others: readonly ErrorCode[]): boolean {
  return codes.size === others.length && others.every((code) => codes.has(code));
}

function responseOf(codes: readonly ErrorCode[], body: string): Response {
  return failure(codes.map((code) => `- \`${code}\`: ${errorCodes[code].meaning}`).join('\n'), body);
}

function failure(description: string, body: string): Response {
  return {
    description,
    content: { 'application/json': { schema: { $ref: `#/components/schemas/${body}` } } },
  };
}
