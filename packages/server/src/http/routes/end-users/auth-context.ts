// What the endpoints for end users share: the context of a request, and how an answer is written.
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { AuthContext } from '../../../access/end-users/auth-context.ts';
import { errors } from '../../../errors/errors.ts';
import { mayManage, requireScope } from '../../../keys/caller.ts';
import { isAddress } from '../../../lib/networks.ts';
import { toJsonText } from '../../../query/json/json-text.ts';
import type { Deps } from '../../deps.ts';
import { callerOf } from '../../request/caller.ts';
import { json } from '../../response/content-type.ts';

export const authBase = '/projects/:slug/auth';
export const deletionNote =
  'Rows that reference the user with "on delete cascade" are deleted too. Other rows that reference it prevent the deletion: 409.';

export async function authContextOf(
  deps: Deps,
  request: FastifyRequest,
  scope: 'auth' | 'manage',
): Promise<AuthContext> {
  const caller = callerOf(request);
  const { slug } = request.params as { slug: string };
  const { id, serverId, passwordVersion } = await deps.logins.of(caller, slug);
  requireScope(caller, scope);
  return {
    projectId: id,
    accountId: caller.accountId,
    serverId,
    passwordVersion,
    slug,
    isPublic: caller.kind === 'publishable',
    mayManage: mayManage(caller),
    address: addressOf(request, caller.kind === 'publishable'),
  };
}

/** The server of an application sends the requests of all its users from one address. It can name the user's address. */
function addressOf({ ip, headers }: FastifyRequest, isPublic: boolean): string | null {
  if (isPublic) return ip;
  const given = headers['x-client-address'];
  if (given === undefined) return null;
  if (typeof given === 'string' && isAddress(given)) return given;
  throw errors.invalidRequest(
    [{ path: 'X-Client-Address', problem: 'must be one IPv4 or IPv6 address' }],
    "Send the address of the user's browser, or omit the header.",
  );
}

/** `data` can contain numbers that only toJsonText writes with all digits. */
export function answerJson(reply: FastifyReply, fields: object): FastifyReply {
  return reply.header('content-type', json).send(toJsonText({ ok: true, ...fields }));
}
