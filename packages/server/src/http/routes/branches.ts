// Branches over HTTP.
import {
  BranchesResponse,
  CreateBranch,
  CreatedBranchResponse,
  ProjectResponse,
  PromotedResponse,
} from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import { listBranches, promoteBranch, resetBranch } from '../../branches/branches.ts';
import { createBranch } from '../../branches/create.ts';
import { backupFailures, placementFailures, spaceFailures } from '../../openapi/failure-sets.ts';
import type { Deps } from '../deps.ts';
import { callerOf } from '../request/caller.ts';
import { SlugParams } from './projects.ts';

type Params = { slug: string };

/** Waiting for its turn and for running statements, the copy, and the roles of a database with 100,000 objects. */
const answerWithinMs = 110_000;

export function branchRoutes(app: FastifyInstance, { branches, restores }: Deps): void {
  const tags = ['branches'];

  app.post<{ Params: Params; Body: CreateBranch }>(
    '/projects/:slug/branches',
    {
      config: {
        action: 'projects.manage',
        showsSecret: true,
        audit: { action: 'project.branch', fields: ['name', 'slug', 'mode', 'at'] },
        answerWithinMs,
        fails: [...placementFailures, ...backupFailures],
      },
      schema: {
        operationId: 'createBranch',
        tags,
        summary: 'Create a branch',
        description:
          "Requires an account key. The branch is a new project with a copy of this project's data and users, and with its own key. Requests of the project wait for a moment; direct connections to its database are closed.",
        params: SlugParams,
        body: CreateBranch,
        response: { 201: CreatedBranchResponse },
      },
    },
    async (request, reply): Promise<CreatedBranchResponse> => {
      const { params, body } = request;
      const caller = callerOf(request);
      const { at } = body;
      const created = await (at === undefined
        ? createBranch(branches, caller, params.slug, body)
        : restores.branch(caller, params.slug, { ...body, at }));
      const { project, apiKey, job = null } = created;
      reply.status(201).header('location', `${app.prefix}/projects/${project.slug}`);
      return { ok: true, project, api_key: apiKey, ...(job && { job }) };
    },
  );

  app.get<{ Params: Params }>(
    '/projects/:slug/branches',
    {
      config: { action: 'projects.read' },
      schema: {
        operationId: 'listBranches',
        tags,
        summary: 'List branches',
        description: 'Requires an account key. Newest first.',
        params: SlugParams,
        response: { 200: BranchesResponse },
      },
    },
    async (request): Promise<BranchesResponse> => ({
      ok: true,
      branches: await listBranches(branches, callerOf(request), request.params.slug),
    }),
  );

  app.post<{ Params: Params }>(
    '/projects/:slug/reset',
    {
      config: {
        action: 'projects.manage',
        audit: { action: 'project.reset' },
        answerWithinMs,
        fails: ['conflict', ...spaceFailures],
      },
      schema: {
        operationId: 'resetBranch',
        tags,
        summary: 'Reset a branch to the present state of its parent',
        description:
          "Requires an account key. The branch's own data is dropped. Its slug, keys and limit stay.",
        params: SlugParams,
        response: { 200: ProjectResponse },
      },
    },
    async (request): Promise<ProjectResponse> => {
      return { ok: true, project: await resetBranch(branches, callerOf(request), request.params.slug) };
    },
  );

  app.post<{ Params: Params }>(
    '/projects/:slug/promote',
    {
      config: {
        action: 'projects.manage',
        audit: { action: 'project.promote' },
        answerWithinMs,
        fails: ['conflict', ...spaceFailures],
      },
      schema: {
        operationId: 'promoteBranch',
        tags,
        summary: 'Promote a branch',
        description:
          "Requires an account key. The parent's slug, keys and connection string then serve the branch's data. The branch gets the parent's old data and is deleted; it can be restored until dropped_after.",
        params: SlugParams,
        response: { 200: PromotedResponse },
      },
    },
    async (request): Promise<PromotedResponse> => {
      return { ok: true, ...(await promoteBranch(branches, callerOf(request), request.params.slug)) };
    },
  );
}
