// Compacting a project over HTTP: started by one request, followed by others.
import { CompactionResponse, LastCompactionResponse } from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { requireScope } from '../keys/caller.ts';
import { getProjectRow } from '../projects/find.ts';
import { callerOf } from './caller.ts';
import type { Deps } from './deps.ts';
import { SlugParams } from './projects.ts';

type Params = { slug: string };

export function compactRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['projects'];
  const managed = async (request: FastifyRequest<{ Params: Params }>) => {
    const caller = callerOf(request);
    const row = await getProjectRow(deps.control, caller, request.params.slug);
    requireScope(caller, 'manage');
    return { id: row.id, passwordVersion: row.password_version };
  };

  app.post<{ Params: Params }>(
    '/projects/:slug/compact',
    {
      schema: {
        tags,
        summary: 'Give space back to the disk',
        description:
          'Needs the scope manage. Starts it, or shows the one that runs. Each table is vacuumed, and written anew where that gains much and there is room for a copy; while a table is written anew nobody else can use it.',
        params: SlugParams,
        response: { 202: CompactionResponse },
      },
    },
    async (request, reply): Promise<CompactionResponse> => {
      const compaction = await deps.compactions.start(await managed(request));
      reply.status(202);
      return { ok: true, compaction };
    },
  );

  app.get<{ Params: Params }>(
    '/projects/:slug/compact',
    {
      schema: {
        tags,
        summary: 'How the last compaction goes, or went',
        description: 'Needs the scope manage. null: there was none.',
        params: SlugParams,
        response: { 200: LastCompactionResponse },
      },
    },
    async (request): Promise<LastCompactionResponse> => {
      const { id } = await managed(request);
      return { ok: true, compaction: await deps.compactions.find(id) };
    },
  );
}
