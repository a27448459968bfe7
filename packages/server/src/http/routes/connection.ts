// The address of a project's database over HTTP.
import { ConnectionResponse } from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import { getConnection } from '../../projects/connection.ts';
import type { Deps } from '../deps.ts';
import { callerOf } from '../request/caller.ts';
import { SlugParams } from './projects.ts';

export function connectionRoute(app: FastifyInstance, deps: Deps): void {
  app.get<{ Params: { slug: string } }>(
    '/projects/:slug/connection',
    {
      config: { action: 'projects.manage', showsSecret: true, audit: { action: 'project.connection' } },
      schema: {
        operationId: 'getConnection',
        tags: ['projects'],
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
