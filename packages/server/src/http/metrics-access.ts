// Who may read /metrics on the port of the API: programs on this machine, and operators from anywhere.
import type { FastifyRequest } from 'fastify';
import { errors } from '../errors.ts';
import type { KeyRing } from '../keys/verify.ts';
import { isLoopback, plainAddress } from '../postgres-proxy/client-address.ts';
import { requireAction } from './authorize.ts';
import { identify } from './caller.ts';

/** A proxy on this machine passes on requests of others, and adds one of these. */
const passedOn = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via'];

export function requireMetricsAccess(keyRing: KeyRing): (request: FastifyRequest) => Promise<void> {
  return async (request) => {
    if (isFromHere(request)) return;
    const { headers } = request;
    if (headers.authorization === undefined && headers['x-api-key'] === undefined) {
      throw errors.missingApiKey(
        'From other machines, the metrics require an operator key.',
        'Send it as "Authorization: Bearer rh_oper_…", or set ROWHOUSE_METRICS_PORT for a port of their own.',
      );
    }
    Object.assign(request, await identify(request, keyRing));
    requireAction(request, 'service.operate');
  };
}

function isFromHere({ headers, socket }: FastifyRequest): boolean {
  return (
    isLoopback(plainAddress(socket.remoteAddress)) && passedOn.every((name) => headers[name] === undefined)
  );
}
