// The recent requests of a project over HTTP: failures, slow statements, and how many there were.
import { LogsResponse } from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import { requireEverything } from '../../keys/caller.ts';
import { slowMs } from '../../settings/limits/requests.ts';
import type { Deps } from '../deps.ts';
import { callerOf } from '../request/caller.ts';
import { SlugParams } from './projects.ts';

export function logRoutes(app: FastifyInstance, deps: Deps): void {
  app.get<{ Params: { slug: string } }>(
    '/projects/:slug/logs',
    {
      config: { action: 'projects.manage' },
      schema: {
        operationId: 'getProjectLogs',
        tags: ['projects'],
        summary: 'Get recent failures and slow statements of a project',
        description:
          "Of the process that answers, since its start. Requires the project's own key, an account key, or a key with the scope manage and all tables, because statements of other keys are shown.",
        params: SlugParams,
        response: { 200: LogsResponse },
      },
    },
    async (request): Promise<LogsResponse> => {
      const caller = callerOf(request);
      const { id } = await deps.logins.of(caller, request.params.slug);
      requireEverything(caller, 'read the log of requests');
      const { since } = deps.projectLog;
      return {
        ok: true,
        since: new Date(since).toISOString(),
        slow_ms: slowMs,
        ...deps.projectLog.read(id),
      };
    },
  );
}
