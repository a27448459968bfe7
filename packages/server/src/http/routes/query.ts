// SQL over HTTP.

import { apiPrefix, BatchResponse, QueryResponse, RunBatch, RunQuery } from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { isActingToken } from '../../access/end-users/acting-tokens.ts';
import { errors, type RowhouseError } from '../../errors/errors.ts';
import { type Caller, requireScope } from '../../keys/caller.ts';
import { sqlFailures } from '../../openapi/failure-sets.ts';
import { runBatch } from '../../query/batch.ts';
import type { Form } from '../../query/exchange/answer-writer.ts';
import type { Answer } from '../../query/exchange/held-answer.ts';
import { rowsOnly } from '../../query/rows-only.ts';
import { runQuery } from '../../query/run.ts';
import type { ProjectLogin } from '../../servers/databases/provision.ts';
import { defaultTimeoutMs, queryBodyBytes } from '../../settings/limits/requests.ts';
import type { Deps } from '../deps.ts';
import { admitActingUsers, checkSession } from '../request/acting-user.ts';
import { callerOf, tokenNotAccepted } from '../request/caller.ts';
import { readAccept, rowBodies, rowsNote } from '../request/row-format.ts';
import { allowStaleness } from '../request/staleness.ts';
import { type ResponseReader, readerOf, respond } from '../response/response-reader.ts';
import { SlugParams } from './projects.ts';

type Params = { slug: string };

const actingNote =
  'With a token for acting as a user, it runs as that user, under row security: see POST …/auth/users/:id/act-as.';

const queryPath = '/projects/:slug/query';
export const queryRoute = apiPrefix + queryPath;

export function queryRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['query'];
  const config = {
    numbers: 'values',
    hasTimeout: true,
    notesChanges: true,
    readsStandbys: true,
    acceptsToken: 'acting',
    beforeReplay: checkSession(deps),
  } as const;
  const admit = admitActingUsers(deps);
  // A publishable key never runs SQL, not even as anon.
  const onRequest = async (request: FastifyRequest) => {
    if (request.accessToken === null) return;
    // Users never run SQL themselves, however the caller was identified.
    if (!isActingToken(request.accessToken)) throw tokenNotAccepted();
    await admit(request);
  };

  app.post<{ Params: Params; Body: RunQuery }>(
    queryPath,
    {
      bodyLimit: queryBodyBytes,
      config: { ...config, action: 'projects.read', audit: null, fails: [...sqlFailures, 'invalid_token'] },
      onRequest,
      schema: {
        operationId: 'runQuery',
        tags,
        summary: 'Run a SQL statement',
        description: `${rowsNote} ${actingNote}`,
        params: SlugParams,
        body: RunQuery,
        response: {
          200: {
            description: 'The result.',
            content: { 'application/json': { schema: QueryResponse }, ...rowBodies },
          },
        },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request);
      const login = request.login ?? (await deps.logins.of(caller, request.params.slug));
      const project = allowStaleness(request.headers, caller, login);
      const accepted = readAccept(request.headers.accept);
      const reader = readerOf(reply, 200, accepted?.contentType);
      const form = accepted ? rowsOnly(accepted.format) : undefined;
      const answer = answerQuery(deps, caller, project, request.body, reader, form);
      return respond(deps, request, reply, reader, answer, project);
    },
  );

  app.post<{ Params: Params; Body: RunBatch }>(
    '/projects/:slug/batch',
    {
      bodyLimit: queryBodyBytes,
      config: { ...config, action: 'projects.read', audit: null, fails: [...sqlFailures, 'invalid_token'] },
      onRequest,
      schema: {
        operationId: 'runBatch',
        tags,
        summary: 'Run several statements in one transaction',
        description: `Either all statements take effect or none. error.details.statement is the index of the statement that failed. ${actingNote}`,
        params: SlugParams,
        body: RunBatch,
        response: { 200: BatchResponse },
      },
    },
    async (request, reply) => {
      const { body } = request;
      const caller = callerOf(request);
      const project = request.login ?? (await deps.logins.of(caller, request.params.slug));
      const input = {
        statements: body.statements.map(({ query, params = [], limit = null, expect_affected }) => ({
          query,
          params,
          limit,
          bigAsString: body.numbers === 'string',
          ...(expect_affected !== undefined && { expectAffected: expect_affected }),
        })),
        timeoutMs: readTimeout(body.timeout_ms, deps.limits.maxTimeoutMs),
        readOnly: mustBeReadOnly(caller) || body.read_only === true,
      };
      const reader = readerOf(reply);
      reader.deadline.statement = () => textOf(body, request.failure);
      const answer = runBatch(deps.query, project, input, reader);
      return respond(deps, request, reply, reader, answer, project);
    },
  );
}

/** For the log: the statement that failed, or the first ones. */
function textOf({ statements }: RunBatch, failure: RowhouseError | null): string {
  const index = (failure?.details as { statement?: number } | undefined)?.statement;
  const failed = index === undefined ? undefined : statements[index];
  return (
    failed?.query ??
    statements
      .slice(0, 10)
      .map(({ query }) => query.slice(0, 1_000))
      .join(';\n')
  );
}

/** The whole response, or null if it was streamed. */
export function answerQuery(
  deps: Deps,
  caller: Caller,
  project: ProjectLogin,
  body: RunQuery,
  reader: ResponseReader,
  form?: Form,
): Promise<Answer> {
  const timeoutMs = readTimeout(body.timeout_ms, deps.limits.maxTimeoutMs);
  reader.deadline.allow(timeoutMs);
  reader.deadline.statement = body.query;
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
  return runQuery(deps.query, project, input, reader, form);
}

/** A viewer, and a key with query:read but not query, can only read; a key with neither is refused. */
export function mustBeReadOnly(caller: Caller): boolean {
  if (caller.kind === 'account' && caller.role === 'viewer') return true;
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
