// Health and readiness of the service, without a key, and its metrics.
import { setTimeout as sleep } from 'node:timers/promises';
import { HealthResponse, ReadyResponse } from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Control } from '../../control/control.ts';
import { errors } from '../../errors/errors.ts';
import type { Metrics } from '../../metrics/http-requests.ts';
import { sql } from '../../postgres/sql.ts';

const readyWithinMs = 2_000;

/** `isAnnounced`: the start has printed the address and the key. `isDraining`: the process will stop soon. */
type Deps = {
  control: Control;
  version: string;
  isAnnounced: () => boolean;
  isDraining: () => boolean;
};

export function serviceRoutes(
  app: FastifyInstance,
  { control, version, isAnnounced, isDraining }: Deps,
): void {
  const tags = ['service'];
  app.get(
    '/healthz',
    {
      schema: {
        operationId: 'getHealth',
        tags,
        summary: 'Check that the process is alive',
        security: [],
        response: { 200: HealthResponse },
      },
    },
    async (): Promise<HealthResponse> => ({ ok: true, version, uptime_s: Math.round(process.uptime()) }),
  );
  app.get(
    '/readyz',
    {
      schema: {
        operationId: 'getReadiness',
        tags,
        summary: 'Check that PostgreSQL answers',
        security: [],
        response: { 200: ReadyResponse },
      },
    },
    async (): Promise<ReadyResponse> => {
      if (!isAnnounced()) throw errors.starting();
      if (isDraining()) throw errors.stopping();
      const asked = control.query<{ version: string }>(
        sql`select split_part(current_setting('server_version'), ' ', 1) as version`,
      );
      // A PostgreSQL that hangs is not ready either, and probes do not wait long.
      const [row] = await Promise.race([asked, tooLate()]);
      return { ok: true, version, postgres: row?.version ?? 'unknown' };
    },
  );
}

async function tooLate(): Promise<never> {
  await sleep(readyWithinMs, undefined, { ref: false });
  throw errors.unavailable(`no answer within ${readyWithinMs} ms`);
}

/** `check`: refuses callers who may not read the metrics. */
export function metricsRoute(
  app: FastifyInstance,
  metrics: Pick<Metrics, 'text' | 'contentType'>,
  check: (request: FastifyRequest) => Promise<void> = async () => {},
): void {
  app.get(
    '/metrics',
    {
      onRequest: check,
      schema: {
        operationId: 'getMetrics',
        tags: ['service'],
        summary: 'Get metrics for Prometheus',
        description: 'Without a key from the machine of the service; otherwise with an operator key.',
        security: [{}, { bearer: [] }, { apiKey: [] }],
        response: {
          200: { description: 'The metrics.', content: { 'text/plain': { schema: { type: 'string' } } } },
        },
      },
    },
    async (_request, reply) => reply.header('content-type', metrics.contentType).send(await metrics.text()),
  );
}
