// SQL over HTTP.
import { BatchResponse, QueryResponse, RunBatch, RunQuery } from '@rowhouse/api';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { errors } from '../errors.ts';
import { type Caller, requireScope } from '../keys/caller.ts';
import { getProjectLogin } from '../projects/find.ts';
import { type Reader, runBatch, runQuery } from '../query/run.ts';
import { callerOf } from './caller.ts';
import type { Deps } from './deps.ts';
import { SlugParams } from './projects.ts';

type Params = { slug: string };
type Raw = FastifyReply['raw'];

const maxBodyBytes = 32 * 1024 * 1024;
const defaultTimeoutMs = 30_000;

export function queryRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['query'];

  app.post<{ Params: Params; Body: RunQuery }>(
    '/projects/:slug/query',
    {
      bodyLimit: maxBodyBytes,
      config: { exactNumbers: true },
      schema: {
        tags,
        summary: 'Run a SQL statement',
        params: SlugParams,
        body: RunQuery,
        response: { 200: QueryResponse },
      },
    },
    async (request, reply) => {
      const { body } = request;
      const caller = callerOf(request);
      const project = await getProjectLogin(deps.control, caller, request.params.slug);
      const input = {
        query: body.query,
        params: body.params ?? [],
        limit: body.limit ?? null,
        bigAsString: body.numbers === 'string',
        timeoutMs: readTimeout(body.timeout_ms, deps.limits.maxTimeoutMs),
        readOnly: mustBeReadOnly(caller) || body.read_only === true,
        dryRun: body.dry_run === true,
        maxAffected: body.max_affected ?? null,
      };
      const reader = readerOf(request, reply);
      try {
        const answer = await runQuery(deps.query, project, input, reader);
        if (answer === null) reader.end();
        else return reply.header('content-type', json).send(answer);
      } catch (error) {
        // Part of an answer is out already: it must not end like a whole one.
        if (!reader.hasBegun) throw error;
        deps.log.warn({ request_id: request.id, err: error }, 'a result broke off');
        reply.raw.destroy();
      }
      return reply;
    },
  );

  app.post<{ Params: Params; Body: RunBatch }>(
    '/projects/:slug/batch',
    {
      bodyLimit: maxBodyBytes,
      config: { exactNumbers: true },
      schema: {
        tags,
        summary: 'Run several statements in one transaction',
        description: 'All or nothing. A failure names the statement by its index in error.details.statement.',
        params: SlugParams,
        body: RunBatch,
        response: { 200: BatchResponse },
      },
    },
    async (request, reply) => {
      const { body } = request;
      const caller = callerOf(request);
      const project = await getProjectLogin(deps.control, caller, request.params.slug);
      const input = {
        statements: body.statements.map(({ query, params = [], limit = null }) => ({
          ...{ query, params, limit },
          bigAsString: body.numbers === 'string',
        })),
        timeoutMs: readTimeout(body.timeout_ms, deps.limits.maxTimeoutMs),
        readOnly: mustBeReadOnly(caller) || body.read_only === true,
      };
      const answer = await runBatch(deps.query, project, input, readerOf(request, reply));
      return reply.header('content-type', json).send(answer);
    },
  );
}

const json = 'application/json; charset=utf-8';

/** A key with query:read alone reads; one with neither is refused. */
function mustBeReadOnly(caller: Caller): boolean {
  if (caller.kind === 'scoped' && caller.scopes.includes('query:read') && !caller.scopes.includes('query'))
    return true;
  requireScope(caller, 'query');
  return false;
}

function readTimeout(given: number | undefined, maxTimeoutMs: number): number {
  if (given !== undefined && given > maxTimeoutMs) {
    throw errors.invalidRequest([
      { path: 'timeout_ms', problem: `must be at most ${maxTimeoutMs}, the maximum of this installation` },
    ]);
  }
  return given ?? Math.min(defaultTimeoutMs, maxTimeoutMs);
}

/** The response as a stream with its own pace. Nothing of it begins before the first write. */
function readerOf(request: FastifyRequest, reply: FastifyReply): Reader & { hasBegun: boolean; end(): void } {
  const raw: Raw = reply.raw;
  const reader: Reader & { hasBegun: boolean; end(): void } = {
    isGone: request.raw.destroyed && !request.raw.complete,
    onGone: null,
    hasBegun: false,
    write(bytes) {
      if (!this.hasBegun) {
        this.hasBegun = true;
        reply.hijack();
        raw.writeHead(200, { ...(reply.getHeaders() as Record<string, string>), 'content-type': json });
      }
      return raw.write(bytes);
    },
    drained: (carryOn) => void raw.once('drain', carryOn),
    end: () => void raw.end(),
  };
  raw.once('close', () => {
    if (raw.writableFinished) return;
    Object.assign(reader, { isGone: true });
    reader.onGone?.();
  });
  return reader;
}
