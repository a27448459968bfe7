// How much a project stores, over HTTP.
import { UsageQuery, UsageResponse } from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import { errors } from '../errors.ts';
import { getProjectRow } from '../projects/find.ts';
import { getUsage } from '../quotas/usage.ts';
import { callerOf } from './caller.ts';
import type { Deps } from './deps.ts';
import { SlugParams } from './projects.ts';

export function usageRoutes(app: FastifyInstance, deps: Deps): void {
  app.get<{ Params: { slug: string }; Querystring: UsageQuery }>(
    '/projects/:slug/usage',
    {
      schema: {
        tags: ['projects'],
        summary: 'How much a project stores, by table, and how large it has been',
        description:
          'Measured now. A table that is locked exclusively at this moment is given with the size that its last VACUUM or ANALYZE saw. A key for some tables is told of those alone. Publishable keys get 403.',
        params: SlugParams,
        querystring: UsageQuery,
        response: { 200: UsageResponse },
      },
    },
    async (request): Promise<UsageResponse> => {
      const caller = callerOf(request);
      const project = await getProjectRow(deps.control, caller, request.params.slug);
      if (caller.kind === 'publishable') {
        throw errors.forbidden(
          'A publishable key may not see how much is stored.',
          'Use any other key of the project, or an account key.',
        );
      }
      const tables = caller.kind === 'account' ? null : caller.tables;
      return { ok: true, ...(await getUsage(deps, project, tables, request.query)) };
    },
  );
}
