// Snapshots over HTTP.
import { CreateSnapshot, SnapshotResponse, SnapshotsResponse } from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import { createSnapshot, deleteSnapshot, listSnapshots } from '../../backups/snapshots.ts';
import { backupFailures } from '../../openapi/failure-sets.ts';
import type { Deps } from '../deps.ts';
import { callerOf } from '../request/caller.ts';
import { SlugParams } from './projects.ts';

const NameParams = Type.Object({
  ...SlugParams.properties,
  name: Type.String({ description: "The snapshot's name." }),
});
type Params = { slug: string };

export function snapshotRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['backups'];

  app.post<{ Params: Params; Body: CreateSnapshot }>(
    '/projects/:slug/snapshots',
    {
      config: { action: 'projects.manage', audit: null, fails: backupFailures },
      schema: {
        operationId: 'createSnapshot',
        tags,
        summary: 'Create a snapshot',
        description:
          'Requires the scope manage. Gives a name to this moment, for a later restore. It takes no space: the backups hold every moment.',
        params: SlugParams,
        body: CreateSnapshot,
        response: { 201: SnapshotResponse },
      },
    },
    async (request, reply): Promise<SnapshotResponse> => {
      const { params, body } = request;
      const snapshot = await createSnapshot(deps, callerOf(request), params.slug, body.name);
      reply.status(201);
      return { ok: true, snapshot };
    },
  );

  app.get<{ Params: Params }>(
    '/projects/:slug/snapshots',
    {
      config: { action: 'projects.read', fails: ['backups_off'] },
      schema: {
        operationId: 'listSnapshots',
        tags,
        summary: 'List snapshots',
        description: 'Requires the scope manage. Newest first.',
        params: SlugParams,
        response: { 200: SnapshotsResponse },
      },
    },
    async (request): Promise<SnapshotsResponse> => ({
      ok: true,
      snapshots: await listSnapshots(deps, callerOf(request), request.params.slug),
    }),
  );

  app.delete<{ Params: Params & { name: string } }>(
    '/projects/:slug/snapshots/:name',
    {
      config: { action: 'projects.manage', audit: null, fails: ['snapshot_not_found', 'backups_off'] },
      schema: {
        operationId: 'deleteSnapshot',
        tags,
        summary: 'Delete a snapshot',
        description:
          'Requires the scope manage. Only the name is deleted: the moment can be restored by its time.',
        params: NameParams,
        response: { 200: SnapshotsResponse },
      },
    },
    async (request): Promise<SnapshotsResponse> => {
      const { slug, name } = request.params;
      await deleteSnapshot(deps, callerOf(request), slug, name);
      return { ok: true, snapshots: await listSnapshots(deps, callerOf(request), slug) };
    },
  );
}
