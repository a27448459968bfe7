// Projects over HTTP.
import {
  ChangeProject,
  ConnectionResponse,
  CreatedProjectResponse,
  CreateProject,
  ListProjects,
  ProjectResponse,
  ProjectsResponse,
  RestoreProject,
  RestoringResponse,
} from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import { errors } from '../../errors/errors.ts';
import { requireAllProjects } from '../../keys/caller.ts';
import { backupFailures, placementFailures, spaceFailures } from '../../openapi/failure-sets.ts';
import { changeProject, deleteProject, undeleteProject } from '../../projects/change.ts';
import { getConnection } from '../../projects/connection.ts';
import { createProject } from '../../projects/create.ts';
import { getProject, listProjects } from '../../projects/find.ts';
import type { Deps } from '../deps.ts';
import { createdProject } from '../request/audit-entries.ts';
import { callerOf } from '../request/caller.ts';

export const SlugParams = Type.Object({ slug: Type.String({ description: "The project's slug." }) });
type Params = { slug: string };

const startWithinMs = 60_000;

export function projectRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['projects'];

  app.get<{ Querystring: ListProjects }>(
    '/projects',
    {
      config: { action: 'projects.read' },
      schema: {
        operationId: 'listProjects',
        tags,
        summary: 'List projects',
        description:
          'Newest first, or with "order=size" the largest first. "search" finds a part of the name or of the slug. With a key of a project: only that project.',
        querystring: ListProjects,
        response: { 200: ProjectsResponse },
      },
    },
    async (request): Promise<ProjectsResponse> => ({
      ok: true,
      ...(await listProjects(deps, callerOf(request), request.query)),
    }),
  );

  app.post<{ Body: CreateProject }>(
    '/projects',
    {
      config: {
        action: 'projects.manage',
        audit: { action: 'project.create', fields: ['name', 'slug', 'limit_mb'], made: createdProject },
        fails: placementFailures,
      },
      schema: {
        operationId: 'createProject',
        tags,
        summary: 'Create a project',
        description:
          'Requires an account key. The response contains the project key, which is shown only once.',
        body: CreateProject,
        response: { 201: CreatedProjectResponse },
      },
    },
    async (request, reply): Promise<CreatedProjectResponse> => {
      const caller = requireAllProjects(callerOf(request), 'create projects');
      const { project, apiKey } = await createProject(deps, caller.accountId, request.body, {
        issuer: caller,
      });
      reply.status(201).header('location', `${app.prefix}/projects/${project.slug}`);
      return { ok: true, project, api_key: apiKey };
    },
  );

  app.get<{ Params: Params }>(
    '/projects/:slug',
    {
      config: { action: 'projects.read' },
      schema: {
        operationId: 'getProject',
        tags,
        summary: 'Get a project',
        params: SlugParams,
        response: { 200: ProjectResponse },
      },
    },
    async (request): Promise<ProjectResponse> => ({
      ok: true,
      project: await getProject(deps, callerOf(request), request.params.slug),
    }),
  );

  app.patch<{ Params: Params; Body: ChangeProject }>(
    '/projects/:slug',
    {
      config: {
        action: 'projects.manage',
        audit: { action: 'project.change', fields: ['name', 'limit_mb', 'expires_at'] },
        fails: ['account_limit', 'conflict', ...spaceFailures],
      },
      schema: {
        operationId: 'changeProject',
        tags,
        summary: 'Rename a project or change its limit',
        description: 'Changing limit_mb requires an account key.',
        params: SlugParams,
        body: ChangeProject,
        response: { 200: ProjectResponse },
      },
    },
    async (request): Promise<ProjectResponse> => ({
      ok: true,
      project: await changeProject(
        { ...deps, headroom: deps.query.admission.headroom },
        callerOf(request),
        request.params.slug,
        request.body,
      ),
    }),
  );

  app.delete<{ Params: Params }>(
    '/projects/:slug',
    {
      config: { action: 'projects.manage', audit: { action: 'project.delete' }, fails: ['conflict'] },
      schema: {
        operationId: 'deleteProject',
        tags,
        summary: 'Delete a project',
        description: 'Requires an account key. The project can be restored until dropped_after.',
        params: SlugParams,
        response: { 200: ProjectResponse },
      },
    },
    async (request): Promise<ProjectResponse> => ({
      ok: true,
      project: await deleteProject(deps, callerOf(request), request.params.slug),
    }),
  );

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
        tags,
        summary: 'Restore a deleted project, or the state of an earlier time',
        description:
          'Requires an account key. Without "to", a deleted project can be used again. With "to", a job restores the state of that time from the backups, into a new project or in place of this one.',
        params: SlugParams,
        body: RestoreProject,
        response: { 200: ProjectResponse, 202: RestoringResponse },
      },
    },
    async (request, reply): Promise<ProjectResponse | RestoringResponse> => {
      const { to, snapshot, into, server } = request.body;
      const { slug } = request.params;
      const caller = callerOf(request);
      if (to !== undefined && snapshot !== undefined)
        throw errors.invalidRequest([{ path: 'snapshot', problem: 'cannot be combined with "to"' }]);
      if (!isFromBackups(request.body)) {
        if (into !== undefined)
          throw errors.invalidRequest([
            { path: 'into', problem: 'requires "to", the time to restore, or "snapshot"' },
          ]);
        if (server !== undefined)
          throw errors.invalidRequest([
            { path: 'server', problem: 'requires "to", the time to restore, or "snapshot"' },
          ]);
        return { ok: true, project: await undeleteProject(deps, caller, slug) };
      }
      if (server !== undefined && into === 'in_place')
        throw errors.invalidRequest([
          { path: 'server', problem: 'cannot be combined with "in_place": the project stays where it is' },
        ]);
      // The last WAL may have to be stored first.
      request.deadline.allow(startWithinMs);
      const started = await deps.restores.start(caller, slug, request.body);
      reply.status(202);
      const { project, apiKey, job, estimatedSeconds } = started;
      const key = apiKey === null ? {} : { api_key: apiKey };
      return { ok: true, project, ...key, job, estimated_seconds: estimatedSeconds };
    },
  );

  app.get<{ Params: Params }>(
    '/projects/:slug/connection',
    {
      config: { action: 'projects.manage', showsSecret: true, audit: { action: 'project.connection' } },
      schema: {
        operationId: 'getConnection',
        tags,
        summary: 'Get the connection string for psql and PostgreSQL drivers',
        description: 'Contains the database password. Requires the project key or an account key.',
        params: SlugParams,
        response: { 200: ConnectionResponse },
      },
    },
    async (request): Promise<ConnectionResponse> => ({
      ok: true,
      connection: await getConnection(deps, callerOf(request), request.params.slug),
    }),
  );
}

/** Otherwise a deleted project is brought back, and no key is shown. */
function isFromBackups({ to, snapshot }: RestoreProject): boolean {
  return to !== undefined || snapshot !== undefined;
}
