// SQL over HTTP.
import { apiPrefix, BatchResponse, QueryResponse, RunBatch, RunQuery } from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import type { ProjectLogin } from '../engine/provision.ts';
import { errors } from '../errors.ts';
import { type Caller, requireScope } from '../keys/caller.ts';
import { runBatch } from '../query/batch.ts';
import type { Answer } from '../query/exchange/held-answer.ts';
import { runQuery } from '../query/run.ts';
import { callerOf } from './caller.ts';
import type { Deps } from './deps.ts';
import { SlugParams } from './projects.ts';
import { type ResponseReader, readerOf, respond } from './response-reader.ts';
import { allowStaleness } from './staleness.ts';

type Params = { slug: string };

const queryPath = '/projects/:slug/query';
export const queryRoute = apiPrefix + queryPath;

export const maxBodyBytes = 32 * 1024 * 1024;
/** Every request is answered within 30 s. */
export const defaultTimeoutMs = 29_000;

export function queryRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['query'];

  app.post<{ Params: Params; Body: RunQuery }>(
    queryPath,
    {
      bodyLimit: maxBodyBytes,
      config: { exactNumbers: true, hasTimeout: true, notesChanges: true, readsStandbys: true },
      schema: {
        tags,
        summary: 'Run a SQL statement',
        params: SlugParams,
        body: RunQuery,
        response: { 200: QueryResponse },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request);
      const login = await deps.logins.of(caller, request.params.slug);
      const project = allowStaleness(request.headers, caller, login);
      const reader = readerOf(reply);
      const answer = answerQuery(deps, caller, project, request.body, reader);
      return respond(deps, request, reply, reader, answer, project);
    },
  );

  app.post<{ Params: Params; Body: RunBatch }>(
    '/projects/:slug/batch',
    {
      bodyLimit: maxBodyBytes,
      config: { exactNumbers: true, hasTimeout: true, notesChanges: true, readsStandbys: true },
      schema: {
        tags,
        summary: 'Run several statements in one transaction',
        description:
          'Either all statements take effect or none. error.details.statement is the index of the statement that failed.',
        params: SlugParams,
        body: RunBatch,
        response: { 200: BatchResponse },
      },
    },
    async (request, reply) => {
      const { body } = request;
      const caller = callerOf(request);
      const project = await deps.logins.of(caller, request.params.slug);
      const input = {
        statements: body.statements.map(({ query, params = [], limit = null }) => ({
          ...{ query, params, limit },
          bigAsString: body.numbers === 'string',
        })),
        timeoutMs: readTimeout(body.timeout_ms, deps.limits.maxTimeoutMs),
        readOnly: mustBeReadOnly(caller) || body.read_only === true,
      };
      const reader = readerOf(reply);
      const answer = runBatch(deps.query, project, input, reader);
      return respond(deps, request, reply, reader, answer, project);
    },
  );
}

/** The whole response, or null if it was streamed. */
export function answerQuery(
  deps: Deps,
  caller: Caller,
  project: ProjectLogin,
  body: RunQuery,
  reader: ResponseReader,
): Promise<Answer> {
  const timeoutMs = readTimeout(body.timeout_ms, deps.limits.maxTimeoutMs);
  reader.deadline.allow(timeoutMs);
  const input = {
    query: body.query,
    params: body.params ?? [],
    limit: body.limit ?? null,
    bigAsString: body.numbers === 'string',
    timeoutMs,
    readOnly: mustBeReadOnly(caller) || body.read_only === true,
    dryRun: body.dry_run === true,
    maxAffected: body.max_affected ?? null,
  };
  return runQuery(deps.query, project, input, reader);
}

/** A key with query:read but not query can only read; a key with neither is refused. */
export function mustBeReadOnly(caller: Caller): boolean {
  if (caller.kind === 'scoped' && caller.scopes.includes('query:read') && !caller.scopes.includes('query'))
    return true;
  requireScope(caller, 'query');
  return false;
}

export function readTimeout(given: number | undefined, maxTimeoutMs: number): number {
  if (given !== undefined && given > maxTimeoutMs) {
    throw errors.invalidRequest([
      { path: 'timeout_ms', problem: `must be at most ${maxTimeoutMs}, the limit of this installation` },
    ]);
  }
  return given ?? Math.min(defaultTimeoutMs, maxTimeoutMs);
}
