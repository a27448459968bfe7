// Who may read /metrics on the port of the API: programs on this machine, and operators from anywhere.
import type { FastifyRequest } from 'fastify';
import { errors } from '../../errors/errors.ts';
import type { KeyRing } from '../../keys/verify.ts';
import { isLoopback, plainAddress } from '../../lib/networks.ts';
import { requireAction } from './authorize.ts';
import { identify } from './caller.ts';
import { isForwarded } from './forwarded.ts';
import { readHost } from './host.ts';

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

/**
 * A proxy on this machine passes on requests of others. Neither is a page in a browser here a program of its owner: the page's
 * name may lead here only since a moment ago.
 */
function isFromHere({ headers, socket }: FastifyRequest): boolean {
  return (
    isLoopback(plainAddress(socket.remoteAddress)) &&
    isLoopback(readHost(headers.host).name) &&
    headers.origin === undefined &&
    headers['sec-fetch-site'] === undefined &&
    !isForwarded(headers)
  );
}
