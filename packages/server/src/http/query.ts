// SQL over HTTP.
import { BatchResponse, QueryResponse, RunBatch, RunQuery } from '@rowhouse/api';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { errors } from '../errors.ts';
import { type Caller, requireScope } from '../keys/caller.ts';
import { getProjectLogin } from '../projects/find.ts';
import { runBatch, runQuery } from '../query/run.ts';
import type { Reader } from '../query/watch.ts';
import { callerOf } from './caller.ts';
import type { Deps } from './deps.ts';
import { SlugParams } from './projects.ts';

type Params = { slug: string };
type Raw = FastifyReply['raw'];

const maxBodyBytes = 32 * 1024 * 1024;
const defaultTimeoutMs = 30_000;
/** What may wait for a slow reader before PostgreSQL is stopped. */
const unsentBytes = 256 * 1024;

export function queryRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['query'];

  app.post<{ Params: Params; Body: RunQuery }>(
    '/projects/:slug/query',
    {
      bodyLimit: maxBodyBytes,
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
      const reader = new Response(reply);
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
      const answer = await runBatch(deps.query, project, input, new Response(reply));
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
class Response implements Reader {
  hasBegun = false;
  private readonly reply: FastifyReply;
  private readonly raw: Raw;

  constructor(reply: FastifyReply) {
    this.reply = reply;
    this.raw = reply.raw;
  }

  get isGone(): boolean {
    return this.raw.destroyed && !this.raw.writableFinished;
  }

  whenGone(tell: () => void): void {
    this.raw.once('close', () => {
      if (!this.raw.writableFinished) tell();
    });
  }

  write(bytes: Buffer, onSent: (error?: Error | null) => void): boolean {
    const { reply, raw } = this;
    if (!this.hasBegun) {
      this.hasBegun = true;
      reply.hijack();
      raw.writeHead(200, { ...(reply.getHeaders() as Record<string, string>), 'content-type': json });
    }
    // Only a write that says false is followed by a drain.
    return raw.write(bytes, onSent) || raw.writableLength < unsentBytes;
  }

  drained(carryOn: () => void): void {
    this.raw.once('drain', carryOn);
  }

  end(): void {
    this.raw.end();
  }
}
