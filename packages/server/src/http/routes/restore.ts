// The one endpoint for two things that callers know as "restore": without a time, a deleted project comes back as it is
// (projects/change.ts); with a time or a snapshot, a job restores that state from the backups (backups/restore/).
import { ProjectResponse, RestoreProject, RestoringResponse } from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import { errors } from '../../errors/errors.ts';
import { backupFailures, placementFailures } from '../../openapi/failure-sets.ts';
import { undeleteProject } from '../../projects/change.ts';
import type { Deps } from '../deps.ts';
import { callerOf } from '../request/caller.ts';
import { SlugParams } from './projects.ts';

type Params = { slug: string };

const startWithinMs = 60_000;

export function restoreRoute(app: FastifyInstance, deps: Deps): void {
  app.post<{ Params: Params; Body: RestoreProject }>(
    '/projects/:slug/restore',
    {
      config: {
        action: 'projects.manage',
        showsSecret: ({ body }) => isFromBackups(body as RestoreProject),
        audit: { action: 'project.restore', fields: ['to', 'snapshot', 'into'] },
        fails: [...placementFailures, ...backupFailures, 'snapshot_not_found'],
      },
      schema: {
        operationId: 'restoreProject',
        tags: ['projects'],
        summary: 'Restore a deleted project, or the state of an earlier time',
        description:
          'Requires an account key. Without "to", a deleted project can be used again. With "to", a job restores the state of that time from the backups, into a new project or in place of this one.',
        params: SlugParams,
        body: RestoreProject,
        response: { 200: ProjectResponse, 202: RestoringResponse },
      },
    },
    async (request, reply): Promise<ProjectResponse | RestoringResponse> => {
      const caller = callerOf(request);
      const { slug } = request.params;
      checkRestore(request.body);
      if (!isFromBackups(request.body))
        return { ok: true, project: await undeleteProject(deps, caller, slug) };
      // The last WAL may have to be stored first.
      request.deadline.allow(startWithinMs);
      const started = await deps.restores.start(caller, slug, request.body);
      reply.status(202);
      const { project, apiKey, job, estimatedSeconds } = started;
      const key = apiKey === null ? {} : { api_key: apiKey };
      return { ok: true, project, ...key, job, estimated_seconds: estimatedSeconds };
    },
  );
}

/** Otherwise a deleted project is brought back, and no key is shown. */
function isFromBackups({ to, snapshot }: RestoreProject): boolean {
  return to !== undefined || snapshot !== undefined;
}

/** Refuses parameters that contradict each other. */
function checkRestore(body: RestoreProject): void {
  const { to, snapshot, into, server } = body;
  if (to !== undefined && snapshot !== undefined)
    throw errors.invalidRequest([{ path: 'snapshot', problem: 'cannot be combined with "to"' }]);
  if (!isFromBackups(body)) {
    for (const path of ['into', 'server'] as const)
      if (body[path] !== undefined)
        throw errors.invalidRequest([{ path, problem: 'requires "to", the time to restore, or "snapshot"' }]);
  } else if (server !== undefined && into === 'in_place') {
    throw errors.invalidRequest([
      { path: 'server', problem: 'cannot be combined with "in_place": the project stays where it is' },
    ]);
  }
}
