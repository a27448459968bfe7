// Tables and their columns over HTTP: what a project contains.
import {
  type DefinitionPart,
  definitionParts,
  SchemaQuery,
  SchemaResponse,
  TablesResponse,
} from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { errors } from '../../errors/errors.ts';
import { requireScope, requireSql } from '../../keys/caller.ts';
import { describeParts } from '../../tables/catalog/definitions.ts';
import { describeSchema, listTables } from '../../tables/catalog/describe.ts';
import { tablesOf } from '../../tables/table-cache.ts';
import type { Deps } from '../deps.ts';
import { callerOf } from '../request/caller.ts';
import { maySee, tableAccessOf, visibleSchema } from '../request/table-access.ts';
import { SlugParams } from './projects.ts';

type Params = { slug: string };

export function schemaRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['tables'];

  app.get<{ Params: Params }>(
    '/projects/:slug/tables',
    {
      config: { action: 'projects.read', fails: ['query_timeout', 'conflict'] },
      schema: {
        operationId: 'listTables',
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

  app.get<{ Params: Params; Querystring: SchemaQuery }>(
    '/projects/:slug/schema',
    {
      config: { action: 'projects.read', fails: ['query_timeout', 'conflict'] },
      schema: {
        operationId: 'describeSchema',
        tags,
        summary: 'Describe all tables: columns, keys, references and types',
        description:
          'With `include`, also indexes, policies and more, with their definitions. That requires one of the scopes query, query:read and manage, and a key without a list of tables.',
        params: SlugParams,
        querystring: SchemaQuery,
        response: { 200: SchemaResponse },
      },
    },
    async (request): Promise<SchemaResponse> => {
      const { caller, ask } = await schemaReader(deps, request);
      const parts = readInclude(request.query.include);
      if (parts.length > 0) requireSql(caller, 'read definitions');
      const schema = visibleSchema(caller, await describeSchema(ask));
      return { ok: true, ...schema, ...(parts.length > 0 && (await describeParts(ask, parts))) };
    },
  );
}

function readInclude(include: string | undefined): DefinitionPart[] {
  if (include === undefined) return [];
  const parts = include.split(',').map((word) => {
    const part = definitionParts.find((one) => one === word);
    if (part) return part;
    throw errors.invalidRequest([
      {
        path: 'include',
        problem: `must be a list of these, separated by commas: ${definitionParts.join(', ')}`,
      },
    ]);
  });
  return [...new Set(parts)];
}

/** The caller, and a way to ask the catalog of its project. */
async function schemaReader(deps: Deps, request: FastifyRequest<{ Params: Params }>) {
  const caller = callerOf(request);
  requireScope(caller, 'tables:read');
  const project = await deps.logins.of(caller, request.params.slug);
  return { caller, ask: tablesOf(deps.tables, project, tableAccessOf(caller)).ask };
}
