// Who is calling: the API key out of a request's headers, and the access token of a user beside it.
import type { FastifyRequest } from 'fastify';
import { errors } from '../errors.ts';
import type { Caller } from '../keys/caller.ts';
import { looksLikeKey } from '../keys/form.ts';
import type { KeyRing } from '../keys/verify.ts';

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller | null;
    /** What came beside the API key; nobody has looked at it yet. */
    accessToken: string | null;
  }
  interface FastifyContextConfig {
    /** A user's access token may come beside the API key. */
    acceptsToken?: boolean;
    /** It must. */
    needsToken?: boolean;
  }
}

const single = ['authorization', 'x-api-key', 'content-type', 'x-request-id', 'idempotency-key'];

export async function identify(
  request: FastifyRequest,
  keyRing: KeyRing,
): Promise<{ caller: Caller; accessToken: string | null }> {
  refuseRepeated(request.raw.rawHeaders);
  const { key, accessToken } = readKeyAndToken(request);
  return { caller: await keyRing.verify(key), accessToken };
}

export function callerOf(request: FastifyRequest): Caller {
  if (!request.caller) throw new Error('A route without a caller asked for one.');
  return request.caller;
}

function readKeyAndToken({ headers, routeOptions }: FastifyRequest): {
  key: string;
  accessToken: string | null;
} {
  const direct = headers['x-api-key'];
  const bearer = readBearer(headers.authorization);
  if (typeof direct !== 'string') {
    if (bearer === null) throw errors.missingApiKey();
    if (!looksLikeKey(bearer) && bearer.split('.').length === 3) {
      throw errors.invalidApiKey(
        "This is a user's access token, not an API key.",
        'Send the API key as "X-API-Key" beside it; with both, table requests act as that user.',
      );
    }
    return { key: bearer, accessToken: null };
  }
  const key = direct.trim();
  if (key === '') throw errors.missingApiKey('The header X-API-Key is empty.');
  if (bearer === null || bearer === key) return { key, accessToken: null };
  if (looksLikeKey(bearer)) {
    throw errors.invalidRequest(
      [{ path: '', problem: 'Authorization and X-API-Key hold different API keys' }],
      'Send one of them.',
    );
  }
  if (routeOptions.config.acceptsToken) return { key, accessToken: bearer };
  throw errors.invalidRequest(
    [
      {
        path: 'Authorization',
        problem: "a user's access token is good for the table and auth/user endpoints only",
      },
    ],
    'Send the API key alone.',
  );
}

export function readBearer(header: string | undefined): string | null {
  if (header === undefined) return null;
  const [, token] = /^bearer +(\S+) *$/i.exec(header) ?? [];
  if (!token) throw errors.missingApiKey('The Authorization header is not "Bearer <API_KEY>".');
  return token;
}

/** A caller's own id is kept if it can stand in a header and a log line as it is. */
export function readRequestId(header: string | string[] | undefined): string | null {
  return typeof header === 'string' && /^[\w.:/+=-]{1,128}$/.test(header) ? header : null;
}

export function hasRepeated(rawHeaders: readonly string[]): boolean {
  return findRepeated(rawHeaders) !== null;
}

/** Node keeps the first of some repeated headers and joins others; a proxy in front may have judged by the other one. */
function findRepeated(rawHeaders: readonly string[]): string | null {
  // Each of the few names is looked for; comparing lengths first spares most of the lowering.
  for (const name of single) {
    let times = 0;
    for (let index = 0; index < rawHeaders.length; index += 2) {
      const given = rawHeaders[index] as string;
      if (given.length === name.length && given.toLowerCase() === name && ++times > 1) return name;
    }
  }
  return null;
}

export function refuseRepeated(rawHeaders: readonly string[]): void {
  const name = findRepeated(rawHeaders);
  if (name) throw errors.invalidRequest([{ path: name, problem: 'this header was sent more than once' }]);
}
