// One line for a request that failed or was slow; at level debug, one for each.
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';

const slowMs = 1_000;

export function requestLog(app: FastifyInstance, log: Logger): void {
  app.addHook('onResponse', (request, reply, done) => {
    const ms = reply.elapsedTime;
    const level = reply.statusCode >= 400 || ms > slowMs ? 'info' : 'debug';
    if (log.isLevelEnabled(level)) {
      log[level](
        {
          request_id: request.id,
          method: request.method,
          // Without the query string, and with no header or body: nothing secret has its place in a path.
          path: request.url.split('?')[0]?.slice(0, 200),
          status: reply.statusCode,
          ms: Math.round(ms * 100) / 100,
          key: request.caller?.keyId,
        },
        'request',
      );
    }
    done();
  });
}
