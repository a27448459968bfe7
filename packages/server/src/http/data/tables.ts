// Rows of tables over HTTP: reading pages, inserting, importing, updating and deleting. Query strings have a grammar of their
// own, and bodies depend on the table: both are validated where they are used.

import {
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
import { errors, RowhouseError } from '../../errors/errors.ts';
import { type Caller, requireScope } from '../../keys/caller.ts';
import { statementFailures } from '../../openapi/failure-sets.ts';
import type { ProjectLogin } from '../../servers/databases/login.ts';
import { anonymousRole } from '../../servers/template/shared-roles.ts';
import { defaultTimeoutMs, otherBodyBytes, queryBodyBytes } from '../../settings/limits/requests.ts';
import type { Table } from '../../tables/catalog/catalog.ts';
import { deleteRows, insertRows, updateRows } from '../../tables/changes.ts';
import { withoutHidden } from '../../tables/hidden-tables.ts';
import type { SentRows } from '../../tables/import/array-rows.ts';
import { type ImportFormat, importRows } from '../../tables/import/import.ts';
import { readPage, readRows } from '../../tables/pages.ts';
import { type Action, requireGrants, requireRowSecurity } from '../../tables/row-security.ts';
import { requireTable, tablesOf } from '../../tables/table-cache.ts';
import type { TableAccess, TableCall } from '../../tables/table-call.ts';
import type { Deps } from '../deps.ts';
import type { RequestDeadline } from '../request/request-deadline.ts';
import { rowBodies, rowsNote } from '../request/row-format.ts';
import { requireTables, tableAccessOf } from '../request/table-access.ts';
import { actingAs } from './acting-user.ts';
import type { DataRequest, DataRoute, RunningRequest } from './data-request.ts';
import type { SentStream } from './receive-body.ts';

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

const reading = {
  path: '/projects/:slug/tables/:table',
  action: 'projects.read',
  acceptsToken: true,
  readsStandbys: true,
  bodyLimit: queryBodyBytes,
  admit,
  status: 200,
} as const satisfies Partial<DataRoute>;
const writing = {
  ...reading,
  action: 'projects.write',
  numbers: 'rows',
  tellsChange: true,
} as const satisfies Partial<DataRoute>;
const documented = { tags: ['tables'], params: TableParams };

const read: DataRoute = {
  ...reading,
  method: 'GET',
  givesRows: true,
  fails: rowFailures,
  schema: {
    ...documented,
    operationId: 'readRows',
    summary: 'Read rows of a table',
    description: `Returns a page of rows. ${rowsNote} They then have all matching rows, unless there is a limit. ${asUser}`,
    querystring: PageQuery,
    response: {
      200: {
        description: 'A page, or the rows.',
        content: { 'application/json': { schema: PageResponse }, ...rowBodies },
      },
    },
  },
  run: (request) => {
    const { deps, accepted, deadline } = request;
    const call = callOf(request, 'select');
    if (!accepted) return readPage(deps.tables, call);
    // All rows of a table can take long, as an import can.
    const { maxTimeoutMs: timeoutMs } = deps.limits;
    deadline.allow(timeoutMs);
    return readRows(deps.tables, { ...call, access: { ...call.access, timeoutMs } }, accepted.format);
  },
};

const insert: DataRoute = {
  ...writing,
  method: 'POST',
  takesRows: true,
  streamed,
  status: 201,
  fails: changeFailures,
  schema: {
    ...documented,
    operationId: 'insertRows',
    summary: 'Insert rows',
    description:
      'An object inserts one row, an array several: all or none. Bodies of type text/csv and application/x-ndjson are streamed and can have any length; they accept no parameters, and the response contains only row_count. The status is 200 if an upsert changed nothing. ' +
      asUser,
    querystring: InsertQuery,
    body: InsertBody,
    response: { 200: InsertResponse, 201: InsertResponse },
  },
  run: (request) => {
    const { deps, body } = request;
    const call = callOf(request, 'insert');
    return isStream(body)
      ? importStream(request, call, body)
      : insertRows(deps.tables, call, body as SentRows);
  },
};

const changing = {
  ...writing,
  fails: [...changeFailures, 'row_not_found'],
} as const satisfies Partial<DataRoute>;
const documentedChange = {
  ...documented,
  description: `A request without a filter gets 400. ${asUser}`,
  querystring: ChangeQuery,
  response: { 200: ChangeResponse },
};

const update: DataRoute = {
  ...changing,
  method: 'PATCH',
  takesRows: true,
  schema: {
    ...documentedChange,
    operationId: 'updateRows',
    summary: 'Update the rows that match a filter',
    body: ChangeBody,
  },
  run: (request) => updateRows(request.deps.tables, callOf(request, 'update'), request.body as SentRows),
};

const remove: DataRoute = {
  ...changing,
  method: 'DELETE',
  bodyLimit: otherBodyBytes,
  schema: {
    ...documentedChange,
    operationId: 'deleteRows',
    summary: 'Delete the rows that match a filter',
  },
  run: (request) => deleteRows(request.deps.tables, callOf(request, 'delete')),
};

export const tableRoutes = [read, insert, update, remove] as const;

/**
 * Before the body is read: an anonymous client cannot make the service read a body for a table that `anon` cannot change. A publishable
 * key has no scope for rows: it can do what the acting user can do, or else `anon`.
 */
function admit({ deps, route, params, login, caller }: DataRequest): void | Promise<void> {
  const action = actions[route.method];
  if (caller && caller.kind !== 'publishable') requireScope(caller, action ? 'tables:write' : 'tables:read');
  if (login?.actingUser?.role !== 'anon' || !caller || !action) return;
  const { check, maySee } = accessOf(deps, caller, login, action);
  return requireTable(tablesOf(deps.tables, login, maySee), params.table, check);
}

const actions: Partial<Record<string, Action>> = { POST: 'insert', PATCH: 'update', DELETE: 'delete' };

function isStream(body: unknown): body is SentStream {
  return typeof body === 'object' && body !== null && 'format' in body;
}

async function importStream(
  { deps, caller, deadline }: RunningRequest,
  { project, name, rawQuery, reader }: TableCall,
  { format, pieces }: SentStream,
): Promise<Buffer> {
  if (rawQuery !== '') {
    throw errors.invalidRequest(
      [{ path: '', problem: 'an import does not accept parameters' }],
      'Omit the query string. For upserts, or to get the rows back, send the rows as a JSON array.',
    );
  }
  const maySee = tableAccessOf(caller);
  const table = await tablesOf(deps.tables, project, maySee).get(name);
  requireTables(caller, [table]);
  const { maxTimeoutMs: timeoutMs } = deps.limits;
  const options = { timeoutMs, onBegin: () => deadline.allow(timeoutMs) };
  const body = withoutWaiting(pieces, deadline);
  const importing = importRows(deps.query, { project, table, format, body, reader }, options);
  const { rowCount } = await importing.catch((error) => {
    throw error instanceof RowhouseError ? withoutHidden(error, error, [table], maySee) : error;
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

function callOf(request: RunningRequest, action: Action): TableCall {
  const { deps, caller, params, rawQuery } = request;
  const project = actingAs(caller, request.login);
  const access = accessOf(deps, caller, project, action);
  return { project, name: params.table, rawQuery, reader: request, access };
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

function timeoutOf({ limits }: Deps): number {
  return Math.min(defaultTimeoutMs, limits.maxTimeoutMs);
}
