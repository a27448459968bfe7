// Tables: pages, and what there is.
import type { OutgoingHttpHeaders } from 'node:http';
import { apiPrefix, PageQuery, PageResponse, SchemaResponse, TablesResponse } from '@rowhouse/api';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { ProjectLogin } from '../engine/provision.ts';
import { errors } from '../errors.ts';
import { type Caller, requireScope } from '../keys/caller.ts';
import { getProjectLogin } from '../projects/find.ts';
import type { Reader } from '../query/watch.ts';
import type { Table } from '../tables/catalog.ts';
import { describeSchema, listTables } from '../tables/describe.ts';
import { tablesOf } from '../tables/kept-tables.ts';
import { readPage } from '../tables/pages.ts';
import { callerOf } from './caller.ts';
import type { Deps } from './deps.ts';
import { SlugParams } from './projects.ts';
import { json, ResponseReader } from './reader.ts';
import { validatorCompiler } from './validation.ts';

type Params = { slug: string; table: string };

const tablePath = '/projects/:slug/tables/:table';
export const tableRoute = apiPrefix + tablePath;
const tableTimeoutMs = 30_000;

export function tableRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['tables'];
  // Query strings have a grammar of their own here: they are read where they are used.
  const ownQuery: FastifyInstance['validatorCompiler'] = (route) =>
    route.httpPart === 'querystring' ? () => true : validatorCompiler(route as never);

  app.get<{ Params: Params }>(
    tablePath,
    {
      schema: {
        tags,
        summary: "A page of a table's rows",
        params: SlugParams,
        querystring: PageQuery,
        response: { 200: PageResponse },
      },
      validatorCompiler: ownQuery,
    },
    async (request, reply) => {
      const caller = callerOf(request);
      const project = await getProjectLogin(deps.control, caller, request.params.slug);
      const reader = readerOf(reply);
      const answer = answerPage(deps, caller, project, request.params.table, queryOf(request), reader);
      return respond(deps, request, reply, reader, answer);
    },
  );

  app.get<{ Params: Params }>(
    '/projects/:slug/tables',
    {
      schema: {
        tags,
        summary: 'The tables and views of a project',
        params: SlugParams,
        response: { 200: TablesResponse },
      },
    },
    async (request): Promise<TablesResponse> => {
      const { caller, ask } = await lookerOf(deps, request);
      const tables = await listTables(ask);
      return { ok: true, tables: tables.filter((table) => maySee(caller, table)) };
    },
  );

  app.get<{ Params: Params }>(
    '/projects/:slug/schema',
    {
      schema: {
        tags,
        summary: 'Columns, keys, references and types of all tables',
        params: SlugParams,
        response: { 200: SchemaResponse },
      },
    },
    async (request): Promise<SchemaResponse> => {
      const { caller, ask } = await lookerOf(deps, request);
      const { tables, enums, functions } = await describeSchema(ask);
      return { ok: true, tables: tables.filter((table) => maySee(caller, table)), enums, functions };
    },
  );
}

export function answerPage(
  deps: Deps,
  caller: Caller,
  project: ProjectLogin,
  table: string,
  rawQuery: string,
  reader: Reader,
): Promise<Buffer | null> {
  requireScope(caller, 'tables:read');
  const options = {
    timeoutMs: timeoutOf(deps),
    check: (tables: readonly Table[]) => requireTables(caller, tables),
  };
  return readPage(deps.tables, project, table, rawQuery, options, reader);
}

async function lookerOf(deps: Deps, request: FastifyRequest<{ Params: Params }>) {
  const caller = callerOf(request);
  requireScope(caller, 'tables:read');
  const project = await getProjectLogin(deps.control, caller, request.params.slug);
  return { caller, ask: tablesOf(deps.tables, project).ask };
}

/** Sends an answer that is whole, ends one that was streamed, breaks off one that failed on its way. */
async function respond(
  deps: Deps,
  request: FastifyRequest,
  reply: FastifyReply,
  reader: ResponseReader,
  answering: Promise<Buffer | null>,
): Promise<FastifyReply> {
  try {
    const answer = await answering;
    if (answer !== null) return reply.header('content-type', json).send(answer);
    reader.end();
  } catch (error) {
    if (!reader.hasBegun) throw error;
    deps.log.warn({ request_id: request.id, err: error }, 'a result broke off');
    reader.breakOff();
  }
  return reply;
}

function readerOf(reply: FastifyReply): ResponseReader {
  return new ResponseReader(reply.raw, () => {
    reply.hijack();
    return reply.getHeaders() as OutgoingHttpHeaders;
  });
}

function queryOf({ raw }: FastifyRequest): string {
  const url = raw.url ?? '';
  const at = url.indexOf('?');
  return at < 0 ? '' : url.slice(at + 1);
}

function timeoutOf({ limits }: Deps): number {
  return Math.min(tableTimeoutMs, limits.maxTimeoutMs);
}

/** A key can be for some tables only; the rows of others are not shown beside them either. */
function requireTables(caller: Caller, tables: readonly Table[]): void {
  const hidden = tables.find((table) => !maySee(caller, table));
  if (hidden) {
    throw errors.forbidden(
      `This key may not use the table ${hidden.name}.`,
      'Use a key whose list of tables has it, or one without such a list.',
    );
  }
}

function maySee(caller: Caller, { schema, name }: { schema: string; name: string }): boolean {
  if (caller.kind === 'account' || caller.tables === null) return true;
  return caller.tables.includes(`${schema}.${name}`) || (schema === 'public' && caller.tables.includes(name));
}
