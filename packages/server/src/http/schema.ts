// Tables and their columns over HTTP: what a project contains.
import { SchemaResponse, TablesResponse } from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { requireScope } from '../keys/caller.ts';
import { describeSchema, listTables } from '../tables/catalog/describe.ts';
import { tablesOf } from '../tables/table-cache.ts';
import { callerOf } from './caller.ts';
import type { Deps } from './deps.ts';
import { SlugParams } from './projects.ts';
import { maySee, tableAccessOf, visibleSchema } from './table-access.ts';

type Params = { slug: string };

export function schemaRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['tables'];

  app.get<{ Params: Params }>(
    '/projects/:slug/tables',
    {
      schema: {
        tags,
        summary: 'List the tables and views of a project',
        params: SlugParams,
        response: { 200: TablesResponse },
      },
    },
    async (request): Promise<TablesResponse> => {
      const { caller, ask } = await schemaReader(deps, request);
      const tables = await listTables(ask);
      return { ok: true, tables: tables.filter((table) => maySee(caller, table)) };
    },
  );

  app.get<{ Params: Params }>(
    '/projects/:slug/schema',
    {
      schema: {
        tags,
        summary: 'Describe all tables: columns, keys, references and types',
        params: SlugParams,
        response: { 200: SchemaResponse },
      },
    },
    async (request): Promise<SchemaResponse> => {
      const { caller, ask } = await schemaReader(deps, request);
      return { ok: true, ...visibleSchema(caller, await describeSchema(ask)) };
    },
  );
}

/** The caller, and a way to ask the catalog of its project. */
async function schemaReader(deps: Deps, request: FastifyRequest<{ Params: Params }>) {
  const caller = callerOf(request);
  requireScope(caller, 'tables:read');
  const project = await deps.logins.of(caller, request.params.slug);
  return { caller, ask: tablesOf(deps.tables, project, tableAccessOf(caller)).ask };
}
