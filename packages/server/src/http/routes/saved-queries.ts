// Saved queries, drafts and history over HTTP, for keys that can run SQL or manage the project.
import {
  AddHistory,
  ChangeSavedQuery,
  ClearedResponse,
  CreateSavedQuery,
  HistoryEntryResponse,
  HistoryResponse,
  ListHistory,
  ListSavedQueries,
  SavedQueriesResponse,
  SavedQueryResponse,
} from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { addHistory, deleteHistory, listHistory } from '../../control/saved/history.ts';
import { changeQuery, createQuery, deleteQuery, getQuery, listQueries } from '../../control/saved/queries.ts';
import { errors } from '../../errors/errors.ts';
import { mayManage, requireScope, requireSql } from '../../keys/caller.ts';
import { openSerial } from '../../lib/serial.ts';
import type { Deps } from '../deps.ts';
import { callerOf } from '../request/caller.ts';
import { SlugParams } from './projects.ts';

type Params = { slug: string };
type IdParams = Params & { id: string };
const IdParams = Type.Object({ ...SlugParams.properties, id: Type.String() });

const needs = 'Requires one of the scopes query, query:read and manage.';
const needsMore = 'Requires the scope query or manage.';
const queries = '/projects/:slug/queries';
const history = '/projects/:slug/history';

export function savedQueryRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['query'];
  const { control } = deps;
  const params = SlugParams;
  const projectOf = async (request: FastifyRequest<{ Params: Params }>): Promise<string> => {
    const caller = callerOf(request);
    const { id } = await deps.logins.of(caller, request.params.slug);
    requireSql(caller, 'use saved queries');
    return id;
  };
  /** Others run what is saved, with their own rights: a key that can only read must not change it. */
  const writableOf = async (request: FastifyRequest<{ Params: Params }>): Promise<string> => {
    const id = await projectOf(request);
    const caller = callerOf(request);
    if (!mayManage(caller)) requireScope(caller, 'query');
    return id;
  };
  /** A project that sends many at once waits for itself, and leaves the few connections to the control database to others. */
  const inTurn = openSerial({
    most: 50,
    tooMany: () =>
      errors.overloaded('Too many requests for the saved queries of the project are waiting.', 1),
  });

  app.get<{ Params: Params; Querystring: ListSavedQueries }>(
    queries,
    {
      config: { action: 'projects.read' },
      schema: {
        operationId: 'listSavedQueries',
        tags,
        summary: 'List saved queries and drafts',
        description: needs,
        params,
        querystring: ListSavedQueries,
        response: { 200: SavedQueriesResponse },
      },
    },
    async (request): Promise<SavedQueriesResponse> => {
      const { kind } = request.query;
      return { ok: true, queries: await listQueries(control, await projectOf(request), kind) };
    },
  );

  app.post<{ Params: Params; Body: CreateSavedQuery }>(
    queries,
    {
      config: { action: 'projects.write', audit: null, fails: ['conflict'] },
      schema: {
        operationId: 'saveQuery',
        tags,
        summary: 'Save a query',
        params,
        body: CreateSavedQuery,
        description: `${needsMore} A project can have 500 saved queries and 100 drafts, together 10 MB.`,
        response: { 201: SavedQueryResponse },
      },
    },
    async (request, reply): Promise<SavedQueryResponse> => {
      const projectId = await writableOf(request);
      const saved = await inTurn(projectId, () => createQuery(control, projectId, request.body));
      reply.status(201);
      return { ok: true, saved };
    },
  );

  app.get<{ Params: IdParams }>(
    `${queries}/:id`,
    {
      config: { action: 'projects.read', fails: ['query_not_found'] },
      schema: {
        operationId: 'getSavedQuery',
        tags,
        summary: 'Get a saved query',
        description: needs,
        params: IdParams,
        response: { 200: SavedQueryResponse },
      },
    },
    async (request): Promise<SavedQueryResponse> => ({
      ok: true,
      saved: await getQuery(control, await projectOf(request), request.params.id),
    }),
  );

  app.patch<{ Params: IdParams; Body: ChangeSavedQuery }>(
    `${queries}/:id`,
    {
      config: { action: 'projects.write', audit: null, fails: ['query_not_found', 'conflict'] },
      schema: {
        operationId: 'changeSavedQuery',
        tags,
        summary: 'Change a saved query',
        params: IdParams,
        body: ChangeSavedQuery,
        description: `${needsMore} With if_updated_at, a query that was changed meanwhile is not overwritten: 409.`,
        response: { 200: SavedQueryResponse },
      },
    },
    async (request): Promise<SavedQueryResponse> => {
      const projectId = await writableOf(request);
      const change = () => changeQuery(control, projectId, request.params.id, request.body);
      return { ok: true, saved: await inTurn(projectId, change) };
    },
  );

  app.delete<{ Params: IdParams }>(
    `${queries}/:id`,
    {
      config: { action: 'projects.write', audit: null, fails: ['query_not_found'] },
      schema: {
        operationId: 'deleteSavedQuery',
        tags,
        summary: 'Delete a saved query',
        description: needsMore,
        params: IdParams,
        response: { 200: ClearedResponse },
      },
    },
    async (request): Promise<ClearedResponse> => {
      await deleteQuery(control, await writableOf(request), request.params.id);
      return { ok: true, deleted: 1 };
    },
  );

  app.get<{ Params: Params; Querystring: ListHistory }>(
    history,
    {
      config: { action: 'projects.read' },
      schema: {
        operationId: 'listHistory',
        tags,
        summary: 'List the history of statements',
        description: needs,
        params,
        querystring: ListHistory,
        response: { 200: HistoryResponse },
      },
    },
    async (request): Promise<HistoryResponse> => {
      const projectId = await projectOf(request);
      // A search reads all texts.
      const list = () => listHistory(control, projectId, request.query);
      return { ok: true, ...(await inTurn(projectId, list)) };
    },
  );

  app.post<{ Params: Params; Body: AddHistory }>(
    history,
    {
      config: { action: 'projects.write', audit: null },
      schema: {
        operationId: 'addToHistory',
        tags,
        summary: 'Add a statement to the history',
        params,
        body: AddHistory,
        description: `${needs} Statements are added only by this request: running one records nothing.`,
        response: { 201: HistoryEntryResponse },
      },
    },
    async (request, reply): Promise<HistoryEntryResponse> => {
      const projectId = await projectOf(request);
      const entry = await addHistory(control, projectId, callerOf(request).keyId, request.body);
      reply.status(201);
      return { ok: true, entry };
    },
  );

  app.delete<{ Params: Params }>(
    history,
    {
      config: { action: 'projects.write', audit: null },
      schema: {
        operationId: 'clearHistory',
        tags,
        summary: 'Clear the history',
        description: needsMore,
        params,
        response: { 200: ClearedResponse },
      },
    },
    async (request): Promise<ClearedResponse> => ({
      ok: true,
      deleted: await deleteHistory(control, await writableOf(request), null),
    }),
  );

  app.delete<{ Params: IdParams }>(
    `${history}/:id`,
    {
      config: { action: 'projects.write', audit: null, fails: ['query_not_found'] },
      schema: {
        operationId: 'deleteHistoryEntry',
        tags,
        summary: 'Delete an entry of the history',
        description: needsMore,
        params: IdParams,
        response: { 200: ClearedResponse },
      },
    },
    async (request): Promise<ClearedResponse> => ({
      ok: true,
      deleted: await deleteHistory(control, await writableOf(request), request.params.id),
    }),
  );
}
