// Moves over HTTP.
import { MoveProject, MoveResponse } from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import { startMove } from '../../moves/move.ts';
import type { Deps } from '../deps.ts';
import { operatorOf } from '../request/authorize.ts';
import { SlugParams } from './projects.ts';

export function moveRoutes(app: FastifyInstance, { moves }: Deps): void {
  app.post<{ Params: { slug: string }; Body: MoveProject }>(
    '/projects/:slug/move',
    {
      config: {
        action: 'service.operate',
        audit: { action: 'project.move', fields: ['server', 'mode'] },
        fails: ['server_not_found', 'conflict', 'server_full'],
      },
      schema: {
        operationId: 'moveProject',
        tags: ['servers'],
        summary: 'Move a project to another server',
        description:
          "Requires an operator key. The job copies the project and then switches to the copy. Requests of the project wait during the switch and see no error; direct connections are closed. The project's slug, keys, users, tokens and limit stay. Cancelling the job undoes the move.",
        params: SlugParams,
        body: MoveProject,
        response: { 202: MoveResponse },
      },
    },
    async (request, reply): Promise<MoveResponse> => {
      const { job, plan } = await startMove(moves, operatorOf(request), request.params.slug, request.body);
      reply.status(202).header('location', `${app.prefix}/jobs/${job.id}`);
      const { mode, reason, expectedPauseMs } = plan;
      const why = reason === undefined ? {} : { reason };
      return { ok: true, job, mode, ...why, expected_pause_ms: expectedPauseMs };
    },
  );
}
