// Identifies the caller: reads the API key and the user's access token from the headers of a request.
import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { isActingToken } from '../../access/end-users/acting-tokens.ts';
import { errors } from '../../errors/errors.ts';
import type { Caller, OperatorCaller } from '../../keys/caller.ts';
import { looksLikeKey } from '../../keys/form.ts';
import type { KeyRing } from '../../keys/verify.ts';

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller | null;
    /** The caller, if it is an operator. */
    operator: OperatorCaller | null;
    /** The token that came with the API key, of a user or for acting as one. It is not verified yet. */
    accessToken: string | null;
  }
  interface FastifyContextConfig {
    acceptsToken?: AcceptsToken;
    /** The route requires one. */
    needsToken?: boolean;
    /** The response contains a key or a password for data that exists already. The console requires a confirmation first. */
    showsSecret?: boolean | ((request: FastifyRequest) => boolean);
  }
}

export async function identify(
  { headers, routeOptions }: FastifyRequest,
  keyRing: KeyRing,
): Promise<{ caller: Caller | null; operator: OperatorCaller | null; accessToken: string | null }> {
  const { key, accessToken } = readKeyAndToken(headers, routeOptions.config.acceptsToken);
  const found = await keyRing.verifyAny(key);
  if (found.kind === 'operator') return { caller: null, operator: found, accessToken };
  return { caller: found, operator: null, accessToken };
}

/** For routes that operators use, too. */
export function anyCallerOf(request: FastifyRequest): Caller | OperatorCaller {
  return request.operator ?? callerOf(request);
}

export function callerOf(request: FastifyRequest): Caller {
  if (request.operator) throw errors.operatorForbidden();
  if (!request.caller) throw new Error('A route without a caller asked for one.');
  return request.caller;
}

/** A user's access token may come with the key. `acting`: only a token for acting as a user. */
export type AcceptsToken = boolean | 'acting' | undefined;

export function readKeyAndToken(
  headers: IncomingHttpHeaders,
  acceptsToken: AcceptsToken,
): { key: string; accessToken: string | null } {
  const direct = headers['x-api-key'];
  const bearer = readBearer(headers.authorization);
  if (typeof direct !== 'string') {
    if (bearer === null) throw errors.missingApiKey();
    if (!looksLikeKey(bearer) && bearer.split('.').length === 3) {
      throw errors.invalidApiKey(
        "This is a user's access token, not an API key.",
        'Send the API key too, as "X-API-Key: <API_KEY>". With both, table requests act as that user.',
      );
    }
    return { key: bearer, accessToken: null };
  }
  const key = direct.trim();
  if (key === '') throw errors.missingApiKey('The header X-API-Key is empty.');
  if (bearer === null || bearer === key) return { key, accessToken: null };
  if (looksLikeKey(bearer)) {
    throw errors.invalidRequest(
      [{ path: '', problem: 'Authorization and X-API-Key contain different API keys' }],
      'Send only one of them.',
    );
  }
  if (acceptsToken === true || (acceptsToken === 'acting' && isActingToken(bearer)))
    return { key, accessToken: bearer };
  throw tokenNotAccepted();
}

export function tokenNotAccepted() {
  return errors.invalidRequest(
    [
      {
        path: 'Authorization',
        problem: "this endpoint does not accept a user's access token",
      },
    ],
    'Send only the API key. Access tokens work with …/tables/:table and …/auth/user.',
  );
}

export function readBearer(header: string | undefined): string | null {
  if (header === undefined) return null;
  const [, token] = /^bearer +(\S+) *$/i.exec(header) ?? [];
  if (!token)
    throw errors.missingApiKey('The Authorization header does not have the form "Bearer <API_KEY>".');
  return token;
}
