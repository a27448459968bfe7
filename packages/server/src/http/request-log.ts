// Logs a line for each request that failed or was slow; at level debug, for every request.
import type { Logger } from 'pino';
import { type NotedRequest, slowMs } from '../metrics/project-log.ts';

/** A request that was answered. */
export type Finished = NotedRequest;

export function logRequest(log: Logger, { requestId, method, path, status, ms, keyId }: Finished): void {
  const level = status >= 400 || ms > slowMs ? 'info' : 'debug';
  if (!log.isLevelEnabled(level)) return;
  log[level](
    {
      request_id: requestId,
      method,
      // Without query string, headers and body, which can contain secrets. A path contains none.
      path: path.split('?')[0]?.slice(0, 200),
      status,
      ms: Math.round(ms * 100) / 100,
      key: keyId,
    },
    'request',
  );
}
