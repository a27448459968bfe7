// Compaction of a project over HTTP: one request starts it, others follow its progress.
import { CompactionResponse, LastCompactionResponse } from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { requireScope } from '../../keys/caller.ts';
import { spaceFailures } from '../../openapi/failure-sets.ts';
import { getOpenProjectRow } from '../../projects/find.ts';
import { loginOfRow } from '../../projects/project.ts';
import type { Deps } from '../deps.ts';
import { callerOf } from '../request/caller.ts';
import { visibleCompaction } from '../request/table-access.ts';
import { SlugParams } from './projects.ts';

type Params = { slug: string };

export function compactRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['projects'];
  const managed = async (request: FastifyRequest<{ Params: Params }>) => {
    const caller = callerOf(request);
    const row = await getOpenProjectRow(deps.control, caller, request.params.slug);
    requireScope(caller, 'manage');
    return loginOfRow(row);
  };

  app.post<{ Params: Params }>(
    '/projects/:slug/compact',
    {
      config: { action: 'projects.manage', audit: null, fails: ['conflict', ...spaceFailures] },
      schema: {
        operationId: 'startCompaction',
        tags,
        summary: 'Compact a project',
        description:
          'Returns unused space to the disk. Requires the scope manage. Starts a compaction, or returns the one that is running. Every table is vacuumed. A table with much unused space is also rewritten if there is space for the copy; the table is locked meanwhile.',
        params: SlugParams,
        response: { 202: CompactionResponse },
      },
    },
    async (request, reply): Promise<CompactionResponse> => {
      const compaction = await deps.compactions.start(await managed(request));
      reply.status(202);
      return { ok: true, compaction: visibleCompaction(callerOf(request), compaction) };
    },
  );

  app.get<{ Params: Params }>(
    '/projects/:slug/compact',
    {
      config: { action: 'projects.read' },
      schema: {
        operationId: 'getCompaction',
        tags,
        summary: 'Get the last compaction',
        description:
          'Requires the scope manage. null if there was none. A key that is limited to some tables sees the names of no others.',
        params: SlugParams,
        response: { 200: LastCompactionResponse },
      },
    },
    async (request): Promise<LastCompactionResponse> => {
      const { id } = await managed(request);
      const compaction = await deps.compactions.find(id);
      return { ok: true, compaction: compaction && visibleCompaction(callerOf(request), compaction) };
    },
  );
}
