// Logs requests: those that failed or were slow in the log of the service, and every one in a log of its own, if the operator
// wants that. Neither has a query string, a header, a body or SQL, which can contain secrets. A path contains none.

import type { IncomingMessage } from 'node:http';
import type { Logger } from 'pino';
import type { NotedRequest } from '../../metrics/project-log.ts';
import { slowMs } from '../../settings/limits/requests.ts';
import type { AddressOf } from '../request/client-address.ts';
import { readTrace } from '../request/trace.ts';

/** A request that was answered. */
export type Finished = NotedRequest & { raw: Pick<IncomingMessage, 'headers' | 'socket'> };

type Logs = { log: Logger; all: Logger | null; addressOf: AddressOf };

export function logRequest({ log, all, addressOf }: Logs, finished: Finished): void {
  const level = finished.status >= 400 || finished.ms > slowMs ? 'info' : 'debug';
  const isLogged = log.isLevelEnabled(level);
  if (!isLogged && !all) return;
  const line = describe(finished, addressOf);
  if (isLogged) log[level](line, 'request');
  all?.info({ ...line, route: finished.route, project: finished.projectId });
}

function describe({ requestId, method, path, status, ms, keyId, raw }: Finished, addressOf: AddressOf) {
  const trace = readTrace(raw.headers);
  return {
    request_id: requestId,
    ...(trace && { trace_id: trace.traceId, span_id: trace.spanId }),
    client: addressOf(raw),
    method,
    path: path.split('?')[0]?.slice(0, 200),
    status,
    ms: Math.round(ms * 100) / 100,
    key: keyId,
  };
}
