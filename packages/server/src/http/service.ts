// What the service tells about itself, without a key.
import { HealthResponse, ReadyResponse } from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import type { Control } from '../control/control.ts';
import { sql } from '../postgres/sql.ts';
import type { Metrics } from './metrics.ts';

type Deps = { control: Control; version: string };

export function serviceRoutes(app: FastifyInstance, { control, version }: Deps): void {
  const tags = ['service'];
  app.get(
    '/healthz',
    { schema: { tags, summary: 'The process lives', security: [], response: { 200: HealthResponse } } },
    async (): Promise<HealthResponse> => ({ ok: true, version, uptime_s: Math.round(process.uptime()) }),
  );
  app.get(
    '/readyz',
    { schema: { tags, summary: 'PostgreSQL answers', security: [], response: { 200: ReadyResponse } } },
    async (): Promise<ReadyResponse> => {
      const [row] = await control.query<{ version: string }>(
        sql`select split_part(current_setting('server_version'), ' ', 1) as version`,
      );
      return { ok: true, version, postgres: row?.version ?? 'unknown' };
    },
  );
}

export function metricsRoute(app: FastifyInstance, metrics: Pick<Metrics, 'text' | 'contentType'>): void {
  app.get(
    '/metrics',
    { schema: { tags: ['service'], summary: 'Metrics for Prometheus', security: [] } },
    async (_request, reply) => reply.header('content-type', metrics.contentType).send(await metrics.text()),
  );
}
