// SQL over HTTP: one statement, or several in a transaction.

import { BatchResponse, QueryResponse, RunBatch, RunQuery } from '@rowhouse/api';
import { errors, type RowhouseError } from '../../errors/errors.ts';
import { type Caller, requireScope } from '../../keys/caller.ts';
import { sqlFailures } from '../../openapi/failure-sets.ts';
import { runBatch } from '../../query/batch.ts';
import { rowsOnly } from '../../query/rows-only.ts';
import { runQuery } from '../../query/run.ts';
import { defaultTimeoutMs, queryBodyBytes } from '../../settings/limits/requests.ts';
import { rowBodies, rowsNote } from '../request/row-format.ts';
import { SlugParams } from '../routes/projects.ts';
import type { DataRoute } from './data-request.ts';
import { callerOf } from './identify.ts';

const actingNote =
  'With a token for acting as a user, it runs as that user, under row security: see POST …/auth/users/:id/act-as.';

const common = {
  method: 'POST',
  action: 'projects.read',
  acceptsToken: 'acting',
  numbers: 'values',
  bodyLimit: queryBodyBytes,
  hasTimeout: true,
  readsStandbys: true,
  tellsChange: true,
  // Anybody can have a publishable key, and none of them ever runs SQL: the body of such a request is not read.
  admit: (request) => void mustBeReadOnly(callerOf(request)),
  status: 200,
  fails: [...sqlFailures, 'invalid_token'],
} as const satisfies Partial<DataRoute>;

const runOne: DataRoute = {
  ...common,
  path: '/projects/:slug/query',
  input: RunQuery,
  givesRows: true,
  schema: {
    operationId: 'runQuery',
    tags: ['query'],
    summary: 'Run a SQL statement',
    description: `${rowsNote} ${actingNote}`,
    params: SlugParams,
    response: {
      200: {
        description: 'The result.',
        content: { 'application/json': { schema: QueryResponse }, ...rowBodies },
      },
    },
  },
  run: (request) => {
    const { deps, caller, login, deadline, accepted } = request;
    const body = request.body as RunQuery;
    const timeoutMs = readTimeout(body.timeout_ms, deps.limits.maxTimeoutMs);
    deadline.allow(timeoutMs);
    deadline.statement = body.query;
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
    return runQuery(deps.query, login, input, request, accepted ? rowsOnly(accepted.format) : undefined);
  },
};

const runSeveral: DataRoute = {
  ...common,
  path: '/projects/:slug/batch',
  input: RunBatch,
  schema: {
    operationId: 'runBatch',
    tags: ['query'],
    summary: 'Run several statements in one transaction',
    description: `Either all statements take effect or none. error.details.statement is the index of the statement that failed. ${actingNote}`,
    params: SlugParams,
    response: { 200: BatchResponse },
  },
  run: (request) => {
    const { deps, caller, login, deadline } = request;
    const body = request.body as RunBatch;
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
    deadline.statement = () => textOf(body, request.failure);
    return runBatch(deps.query, login, input, request);
  },
};

export const queryRoutes = [runOne, runSeveral] as const;

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
