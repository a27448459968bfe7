// The storage usage of a project over HTTP.
import { UsageQuery, UsageResponse } from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import { findDrillProblem } from '../../backups/check/drill-problems.ts';
import { errors } from '../../errors/errors.ts';
import { listOf } from '../../keys/listed-tables.ts';
import { getOpenProjectRow } from '../../projects/find.ts';
import { getUsage } from '../../quotas/usage.ts';
import type { Deps } from '../deps.ts';
import { callerOf } from '../request/caller.ts';
import { SlugParams } from './projects.ts';

export function usageRoutes(app: FastifyInstance, deps: Deps): void {
  app.get<{ Params: { slug: string }; Querystring: UsageQuery }>(
    '/projects/:slug/usage',
    {
      config: { action: 'projects.read', fails: ['query_timeout', 'conflict'] },
      schema: {
        operationId: 'getUsage',
        tags: ['projects'],
        summary: 'Get the storage usage of a project, by table and over time',
        description:
          'Measured for each request. For a table that is locked exclusively, the size is that of its last VACUUM or ANALYZE. A key that is limited to some tables sees only those. Publishable keys get 403.',
        params: SlugParams,
        querystring: UsageQuery,
        response: { 200: UsageResponse },
      },
    },
    async (request): Promise<UsageResponse> => {
      const caller = callerOf(request);
      const project = await getOpenProjectRow(deps.control, caller, request.params.slug);
      if (caller.kind === 'publishable') {
        throw errors.forbidden(
          'A publishable key cannot read the storage usage.',
          'Use the project key, a scoped key or an account key on your server.',
        );
      }
      const { usage, history } = await getUsage(deps, project, listOf(caller), request.query);
      // The problem itself names tables that the key may not see. The operator has it in the log.
      const failedAt = (await findDrillProblem(deps.control, project.id))?.failedAt ?? null;
      return { ok: true, usage: { ...usage, failed_restore_drill_at: failedAt }, history };
    },
  );
}
