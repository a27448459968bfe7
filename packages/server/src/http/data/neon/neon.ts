// SQL over HTTP in the protocol of Neon's driver (@neondatabase/serverless, which Drizzle, Kysely and Prisma can use).
// It runs statements like /query and /batch; only authentication and the shape of responses and errors differ.

import type { IncomingHttpHeaders } from 'node:http';
import { NeonResponse, RunNeon } from '@rowhouse/api';
import { errors } from '../../../errors/errors.ts';
import { sqlFailures } from '../../../openapi/failure-sets.ts';
import { runScript } from '../../../query/batch.ts';
import type { StatementInput } from '../../../query/exchange/answer-writer.ts';
import type { Answer } from '../../../query/exchange/held-answer.ts';
import type { Reader } from '../../../query/exchange/reader.ts';
import { type NeonMode, neonForms } from '../../../query/neon.ts';
import { runQuery } from '../../../query/run.ts';
import type { ProjectLogin } from '../../../servers/databases/login.ts';
import { queryBodyBytes } from '../../../settings/limits/requests.ts';
import type { Deps } from '../../deps.ts';
import type { DataRoute } from '../data-request.ts';
import { callerOf } from '../identify.ts';
import { mustBeReadOnly, readTimeout } from '../query.ts';
import { neonVoice } from './neon-errors.ts';

type NeonQuery = { query: string; params?: unknown[] };

export const neonRoute: DataRoute = {
  method: 'POST',
  path: '/sql',
  input: RunNeon,
  numbers: 'values',
  // The content type that fetch sets for a string body.
  jsonTypes: ['text/plain'],
  bodyLimit: queryBodyBytes,
  admit: (request) => void mustBeReadOnly(callerOf(request)),
  status: 200,
  voice: neonVoice,
  fails: [...sqlFailures, 'invalid_credentials', 'project_not_found', 'project_not_ready'],
  schema: {
    operationId: 'runNeonQuery',
    tags: ['query'],
    summary: "Run SQL for Neon's driver",
    description: 'The HTTP protocol of @neondatabase/serverless. See docs/compatibility.md.',
    security: [{ connectionString: [] }],
    response: { 200: NeonResponse },
  },
  run: async (request) => {
    const { deps, caller, login, body, exchange } = request;
    const { headers } = exchange;
    const asked = { headers, isReadOnly: mustBeReadOnly(caller), mode: readMode(headers) };
    return answerNeon(deps, login, body as RunNeon, asked, request);
  },
};

type Asked = { headers: IncomingHttpHeaders; isReadOnly: boolean; mode: NeonMode };

/** The whole response, or null if it was streamed. */
async function answerNeon(
  deps: Deps,
  login: ProjectLogin,
  { query, params, queries }: RunNeon,
  { headers, isReadOnly, mode }: Asked,
  reader: Reader,
): Promise<Answer> {
  const forms = neonForms(mode);
  const timeoutMs = readTimeout(undefined, deps.limits.maxTimeoutMs);
  if (queries !== undefined) {
    if (query !== undefined || params !== undefined)
      throw errors.invalidRequest([{ path: 'queries', problem: 'cannot be combined with query and params' }]);
    const begin = readBegin(headers, isReadOnly);
    const input = { statements: queries.map(toStatement), timeoutMs, begin, listName: 'queries' };
    const [opening, closing] = [Buffer.from('{"results":['), Buffer.from(']}')];
    if (queries.length === 0) return Buffer.concat([opening, closing]);
    const { held, parts } = await runScript(deps.query, login, input, [forms.first, forms.next], reader);
    return held.compose([opening, ...parts.flat(), closing]).close();
  }
  if (query === undefined) throw errors.invalidRequest([{ path: 'query', problem: 'is required' }]);
  for (const name of Object.values(batchHeaders)) {
    if (headers[name] !== undefined)
      throw errors.invalidRequest([{ path: name, problem: 'requires "queries" instead of a single query' }]);
  }
  const input = {
    ...toStatement({ query, ...(params && { params }) }),
    timeoutMs,
    readOnly: isReadOnly,
    dryRun: false,
    maxAffected: null,
  };
  return runQuery(deps.query, login, input, reader, forms.withSession);
}

function toStatement({ query, params = [] }: NeonQuery): StatementInput {
  return { query, params, limit: null, bigAsString: true };
}

const batchHeaders = {
  isolation: 'neon-batch-isolation-level',
  readOnly: 'neon-batch-read-only',
  deferrable: 'neon-batch-deferrable',
};
const isolationLevels = new Map([
  ['ReadUncommitted', 'read uncommitted'],
  ['ReadCommitted', 'read committed'],
  ['RepeatableRead', 'repeatable read'],
  ['Serializable', 'serializable'],
]);

function readMode(headers: IncomingHttpHeaders): NeonMode {
  return {
    rawText: readFlag(headers, 'neon-raw-text-output') ?? false,
    arrays: readFlag(headers, 'neon-array-mode') ?? false,
  };
}

function readBegin(headers: IncomingHttpHeaders, isReadOnly: boolean): string {
  const asked = headers[batchHeaders.isolation];
  const level = isolationLevels.get(String(asked));
  if (asked !== undefined && level === undefined) {
    const problem = `must be one of ${[...isolationLevels.keys()].join(', ')}`;
    throw errors.invalidRequest([{ path: batchHeaders.isolation, problem }]);
  }
  const readOnly = readFlag(headers, batchHeaders.readOnly) ?? false;
  const deferrable = readFlag(headers, batchHeaders.deferrable) ?? false;
  return [
    'begin',
    level && `isolation level ${level}`,
    (isReadOnly || readOnly) && 'read only',
    deferrable && 'deferrable',
  ]
    .filter(Boolean)
    .join(' ');
}

function readFlag(headers: IncomingHttpHeaders, name: string): boolean | undefined {
  const value = headers[name];
  if (value === undefined) return undefined;
  if (value !== 'true' && value !== 'false')
    throw errors.invalidRequest([{ path: name, problem: 'must be true or false' }]);
  return value === 'true';
}
