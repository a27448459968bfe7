// Rows of tables over HTTP: reading pages, inserting, importing, updating and deleting.

import {
  apiPrefix,
  ChangeBody,
  ChangeQuery,
  ChangeResponse,
  InsertBody,
  InsertQuery,
  InsertResponse,
  PageQuery,
  PageResponse,
  TableParams,
} from '@rowhouse/api';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { errors, RowhouseError } from '../../errors/errors.ts';
import { type Caller, requireScope } from '../../keys/caller.ts';
import { statementFailures } from '../../openapi/failure-sets.ts';
import type { Answer } from '../../query/exchange/held-answer.ts';
import type { RowFormat } from '../../query/rows-only.ts';
import type { ProjectLogin } from '../../servers/databases/provision.ts';
import { anonymousRole } from '../../servers/template/shared-roles.ts';
import { defaultTimeoutMs, queryBodyBytes } from '../../settings/limits/requests.ts';
import type { Table } from '../../tables/catalog/catalog.ts';
import { type Changed, deleteRows, insertRows, updateRows } from '../../tables/changes.ts';
import { withoutHidden } from '../../tables/hidden-tables.ts';
import type { SentRows } from '../../tables/import/array-rows.ts';
import { type ImportFormat, importRows } from '../../tables/import/import.ts';
import { readPage, readRows } from '../../tables/pages.ts';
import { type Action, requireGrants, requireRowSecurity } from '../../tables/row-security.ts';
import { requireTable, tablesOf } from '../../tables/table-cache.ts';
import type { TableAccess, TableCall } from '../../tables/table-call.ts';
import type { Deps } from '../deps.ts';
import { actingAs, admitActingUsers, checkSession } from '../request/acting-user.ts';
import { callerOf } from '../request/caller.ts';
import { checkEncoding } from '../request/json-body.ts';
import type { RequestDeadline } from '../request/request-deadline.ts';
import { readAccept, rowBodies, rowsNote } from '../request/row-format.ts';
import { allowStaleness, positionHeaders, wantsPosition } from '../request/staleness.ts';
import { requireTables, tableAccessOf } from '../request/table-access.ts';
import { json, type ResponseReader, readerOf, respond, sizeHeaders } from '../response/response-reader.ts';

type Params = { slug: string; table: string };

const tablePath = '/projects/:slug/tables/:table';
export const tableRoute = apiPrefix + tablePath;
const asUser =
  "With a user's access token, the request acts as that user; with a publishable key alone, as anon. Row security applies to both.";

const rowFailures = [
  'table_not_found',
  'sql_error',
  'constraint_violation',
  'conflict',
  'query_timeout',
] as const;
const changeFailures = [...rowFailures, ...statementFailures] as const;

/** Bodies that are streamed instead of read into memory, so that they can have any length. */
const streamed: Record<string, ImportFormat> = {
  'text/csv': 'csv',
  'application/x-ndjson': 'json-lines',
  'application/jsonl': 'json-lines',
  'application/jsonlines': 'json-lines',
};

export function tableRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['tables'];
  // Query strings have a grammar of their own, and bodies depend on the table: both are validated where they are used.
  const ownInput: FastifyInstance['validatorCompiler'] = () => () => true;
  const admit = admitActingUsers(deps);
  const onRequest = async (request: FastifyRequest) => {
    await admit(request);
    await admitBody(deps, request);
  };

  for (const type of Object.keys(streamed))
    app.addContentTypeParser(type, (request, payload, done) => {
      try {
        const { method, routeOptions } = request;
        if (method !== 'POST' || !routeOptions.url?.endsWith(tablePath))
          throw errors.unsupportedMediaType(request.headers['content-type']);
        checkEncoding(request.headers);
        done(null, payload);
      } catch (error) {
        done(error as Error);
      }
    });

  app.get<{ Params: Params }>(
    tablePath,
    {
      config: { action: 'projects.read', acceptsToken: true, readsStandbys: true, fails: rowFailures },
      onRequest,
      schema: {
        operationId: 'readRows',
        tags,
        summary: 'Read rows of a table',
        description: `Returns a page of rows. ${rowsNote} They then have all matching rows, unless there is a limit. ${asUser}`,
        params: TableParams,
        querystring: PageQuery,
        response: {
          200: {
            description: 'A page, or the rows.',
            content: { 'application/json': { schema: PageResponse }, ...rowBodies },
          },
        },
      },
      validatorCompiler: ownInput,
    },
    async (request, reply) => {
      const caller = callerOf(request);
      const project = await loginOf(deps, request);
      const accepted = readAccept(request.headers.accept);
      const reader = readerOf(reply, 200, accepted?.contentType);
      // All rows of a table can take long, as an import can.
      if (accepted) reader.deadline.allow(deps.limits.maxTimeoutMs);
      const answer = answerPage(deps, caller, targetOf(request, project, reader), accepted?.format);
      return respond(deps, request, reply, reader, answer);
    },
  );

  app.post<{ Params: Params; Body: unknown }>(
    tablePath,
    {
      bodyLimit: queryBodyBytes,
      config: {
        action: 'projects.write',
        numbers: 'rows',
        takesRows: true,
        acceptsToken: true,
        readsStandbys: true,
        notesChanges: true,
        beforeReplay: checkSession(deps),
        audit: null,
        fails: changeFailures,
      },
      onRequest,
      schema: {
        operationId: 'insertRows',
        tags,
        summary: 'Insert rows',
        description:
          'An object inserts one row, an array several: all or none. Bodies of type text/csv and application/x-ndjson are streamed and can have any length; they accept no parameters, and the response contains only row_count. The status is 200 if an upsert changed nothing. ' +
          asUser,
        params: TableParams,
        querystring: InsertQuery,
        body: InsertBody,
        response: { 200: InsertResponse, 201: InsertResponse },
      },
      validatorCompiler: ownInput,
    },
    async (request, reply) => {
      const caller = callerOf(request);
      const project = await loginOf(deps, request);
      const { body } = request;
      const type = (request.headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase() ?? '';
      const format = streamed[type];
      const reader = readerOf(reply, 201);
      if (format) {
        // A response that is sent before the end of the body must not wait for it, nor must the next request on this
        // connection. The iterator that read the body still listens, and a stream with such a listener does not flow.
        reply.raw.once('finish', () => {
          request.raw.removeAllListeners('readable');
          setImmediate(() => request.raw.resume());
        });
        const rows = body as AsyncIterable<Buffer>;
        const answer = await answerImport(deps, caller, targetOf(request, project, reader), format, rows);
        return reply
          .status(201)
          .headers(sizeHeaders(deps, project.id))
          .headers(wantsPosition(request) ? await positionHeaders(deps, project) : {})
          .header('content-type', json)
          .send(answer);
      }
      const inserting = answerInsert(deps, caller, targetOf(request, project, reader), body as SentRows);
      return respond(deps, request, reply, reader, statusOf(reply, inserting), project);
    },
  );

  app.patch<{ Params: Params; Body: unknown }>(
    tablePath,
    {
      bodyLimit: queryBodyBytes,
      config: {
        action: 'projects.write',
        numbers: 'rows',
        takesRows: true,
        acceptsToken: true,
        notesChanges: true,
        readsStandbys: true,
        audit: null,
        fails: [...changeFailures, 'row_not_found'],
      },
      onRequest,
      schema: {
        operationId: 'updateRows',
        tags,
        summary: 'Update the rows that match a filter',
        description: `A request without a filter gets 400. ${asUser}`,
        params: TableParams,
        querystring: ChangeQuery,
        body: ChangeBody,
        response: { 200: ChangeResponse },
      },
      validatorCompiler: ownInput,
    },
    async (request, reply) => {
      const reader = readerOf(reply);
      const call = await writingCall(deps, request, 'update', reader);
      const changing = updateRows(deps.tables, call, request.body as SentRows);
      return respond(deps, request, reply, reader, answerOf(changing), call.project);
    },
  );

  app.delete<{ Params: Params }>(
    tablePath,
    {
      config: {
        action: 'projects.write',
        acceptsToken: true,
        notesChanges: true,
        readsStandbys: true,
        audit: null,
        fails: [...changeFailures, 'row_not_found'],
      },
      onRequest,
      schema: {
        operationId: 'deleteRows',
        tags,
        summary: 'Delete the rows that match a filter',
        description: `A request without a filter gets 400. ${asUser}`,
        params: TableParams,
        querystring: ChangeQuery,
        response: { 200: ChangeResponse },
      },
      validatorCompiler: ownInput,
    },
    async (request, reply) => {
      const reader = readerOf(reply);
      const call = await writingCall(deps, request, 'delete', reader);
      const deleting = deleteRows(deps.tables, call);
      return respond(deps, request, reply, reader, answerOf(deleting), call.project);
    },
  );
}

const actions: Record<string, Action> = { POST: 'insert', PATCH: 'update', DELETE: 'delete' };

/** Before the body is read: an anonymous client cannot make the service read a body for a table that `anon` cannot change. */
async function admitBody(deps: Deps, request: FastifyRequest): Promise<void> {
  const { login, method, params } = request;
  const action = actions[method];
  if (login?.actingUser?.role !== 'anon' || !action) return;
  const { check, maySee } = accessOf(deps, callerOf(request), login, action);
  await requireTable(tablesOf(deps.tables, login, maySee), (params as Params).table, check);
}

/** Which rows a request is about, and where its answer goes. */
type Target = Omit<TableCall, 'access'>;

function targetOf(
  request: FastifyRequest<{ Params: Params }>,
  project: ProjectLogin,
  reader: ResponseReader,
): Target & { reader: ResponseReader } {
  return { project, name: request.params.table, rawQuery: queryOf(request), reader };
}

export function answerPage(deps: Deps, caller: Caller, target: Target, format?: RowFormat): Promise<Answer> {
  requireRows(caller, 'tables:read');
  const call = callOf(deps, caller, target, 'select');
  if (!format) return readPage(deps.tables, call);
  const access = { ...call.access, timeoutMs: deps.limits.maxTimeoutMs };
  return readRows(deps.tables, { ...call, access }, format);
}

export function answerInsert(deps: Deps, caller: Caller, target: Target, rows: SentRows): Promise<Changed> {
  requireRows(caller, 'tables:write');
  return insertRows(deps.tables, callOf(deps, caller, target, 'insert'), rows);
}

function callOf(deps: Deps, caller: Caller, target: Target, action: Action): TableCall {
  const { name, rawQuery, reader } = target;
  const project = actingAs(caller, target.project);
  return { project, name, rawQuery, reader, access: accessOf(deps, caller, project, action) };
}

async function answerImport(
  deps: Deps,
  caller: Caller,
  { project, name, rawQuery, reader }: Target & { reader: ResponseReader },
  format: ImportFormat,
  body: AsyncIterable<Buffer>,
): Promise<Buffer> {
  requireRows(caller, 'tables:write');
  if (rawQuery !== '') {
    throw errors.invalidRequest(
      [{ path: '', problem: 'an import does not accept parameters' }],
      'Omit the query string. For upserts, or to get the rows back, send the rows as a JSON array.',
    );
  }
  const table = await tablesOf(deps.tables, project, tableAccessOf(caller)).get(name);
  requireTables(caller, [table]);
  const { maxTimeoutMs: timeoutMs } = deps.limits;
  const { deadline } = reader;
  const options = { timeoutMs, onBegin: () => deadline.allow(timeoutMs) };
  const rows = withoutWaiting(body, deadline);
  const importing = importRows(deps.query, { project, table, format, body: rows, reader }, options);
  const { rowCount } = await importing.catch((error) => {
    throw error instanceof RowhouseError
      ? withoutHidden(error, error, [table], tableAccessOf(caller))
      : error;
  });
  return Buffer.from(JSON.stringify({ ok: true, row_count: rowCount }));
}

/** The time that the client takes to send does not count against the deadline. */
function withoutWaiting(body: AsyncIterable<Buffer>, deadline: RequestDeadline): AsyncIterable<Buffer> {
  const pieces = body[Symbol.asyncIterator]();
  const next = () => {
    deadline.pause();
    return pieces.next().finally(() => deadline.resume());
  };
  return { [Symbol.asyncIterator]: () => ({ next }) };
}

async function writingCall(
  deps: Deps,
  request: FastifyRequest<{ Params: Params }>,
  action: Action,
  reader: ResponseReader,
): Promise<TableCall> {
  const caller = callerOf(request);
  const project = await loginOf(deps, request);
  requireRows(caller, 'tables:write');
  return callOf(deps, caller, targetOf(request, project, reader), action);
}

/** As the acting user, if there is one; with a publishable key alone, as `anon`. */
async function loginOf(deps: Deps, request: FastifyRequest<{ Params: Params }>): Promise<ProjectLogin> {
  const caller = callerOf(request);
  const login = request.login ?? (await deps.logins.of(caller, request.params.slug));
  return actingAs(caller, allowStaleness(request.headers, caller, login));
}

/** A publishable key has no scope for rows: it can do what the acting user can do, or else `anon`. */
function requireRows(caller: Caller, scope: 'tables:read' | 'tables:write'): void {
  if (caller.kind !== 'publishable') requireScope(caller, scope);
}

function accessOf(deps: Deps, caller: Caller, { actingUser }: ProjectLogin, action: Action): TableAccess {
  return {
    timeoutMs: timeoutOf(deps),
    check: (tables: readonly Table[]) => {
      requireTables(caller, tables);
      if (caller.kind === 'publishable')
        requireRowSecurity(tables, action, actingUser?.role ?? anonymousRole);
      if (actingUser) requireGrants(tables, action, actingUser.role);
    },
    maySee: tableAccessOf(caller),
    checkReading: () => {
      if (caller.kind !== 'scoped' || caller.scopes.includes('tables:read')) return;
      throw errors.forbidden(
        'This key can write rows but not read them.',
        'Send returning=minimal, or use a key that also has the scope "tables:read".',
      );
    },
  };
}

async function answerOf(changing: Promise<Changed>): Promise<Answer> {
  return (await changing).answer;
}

/** 200 for an upsert that changed nothing. */
async function statusOf(reply: FastifyReply, inserting: Promise<Changed>): Promise<Answer> {
  const { answer, isNew } = await inserting;
  reply.status(isNew ? 201 : 200);
  return answer;
}

function queryOf({ raw }: FastifyRequest): string {
  const url = raw.url ?? '';
  const at = url.indexOf('?');
  return at < 0 ? '' : url.slice(at + 1);
}

function timeoutOf({ limits }: Deps): number {
  return Math.min(defaultTimeoutMs, limits.maxTimeoutMs);
}
