// Projects over HTTP.
import {
  ChangeProject,
  CreatedProjectResponse,
  CreateProject,
  ListProjects,
  ProjectResponse,
  ProjectsResponse,
} from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import { requireAllProjects } from '../../keys/caller.ts';
import { placementFailures, spaceFailures } from '../../openapi/failure-sets.ts';
import { changeProject, deleteProject } from '../../projects/change.ts';
import { createProject } from '../../projects/create.ts';
import { getProject, listProjects } from '../../projects/find.ts';
import type { Deps } from '../deps.ts';
import { createdProject } from '../request/audit-entries.ts';
import { callerOf } from '../request/caller.ts';

export const SlugParams = Type.Object({ slug: Type.String({ description: "The project's slug." }) });
type Params = { slug: string };

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
}
