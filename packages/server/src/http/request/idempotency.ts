// Idempotency-Key on any POST of the framework's routes (repeats.ts): reserved between validation and handler, stored before
// the response is sent.
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import type { Answer, IdempotencyStore } from '../../jobs/idempotency.ts';
import type { Caller } from '../../keys/caller.ts';
import { callerOf } from './caller.ts';
import { hashStream, pathOf, Repeat, readRepeatKey, repeatUserOf } from './repeats.ts';

declare module 'fastify' {
  interface FastifyRequest {
    repeat: Repeat | null;
  }
  interface FastifyContextConfig {
    /** Throws if the caller must not get the stored response of this route again. */
    beforeReplay?: (request: FastifyRequest) => void | Promise<void>;
  }
}

/** Call before the routes are registered. */
export function acceptIdempotencyKeys(app: FastifyInstance, idempotency: IdempotencyStore): void {
  app.decorateRequest('repeat', null);
  app.addHook('onRoute', (route) => {
    if (route.method !== 'POST') return;
    const { preParsing, preHandler, onSend }: Partial<RouteOptions> = route;
    route.preParsing = [
      async (request, reply, payload) => {
        const { headers, url } = request;
        const key = readRepeatKey(headers);
        if (key === null) return payload;
        const body = hashStream(url, headers, payload);
        // An unread rest is discarded, or the next request on this connection would wait behind it.
        reply.raw.once('finish', () => payload.unpipe().resume());
        request.repeat = new Repeat(key, body);
        return body.stream;
      },
      ...[preParsing ?? []].flat(),
    ];
    route.preHandler = [
      ...[preHandler ?? []].flat(),
      (request, reply, done) => {
        if (request.repeat === null) return done();
        begin(idempotency, request.repeat, request, reply).then((isFirst) => isFirst && done(), done);
      },
    ];
    route.onSend = [
      ...[onSend ?? []].flat(),
      (request, reply, payload, done) => {
        if (!request.repeat?.isReserved) return done();
        const response = {
          status: reply.statusCode,
          failure: request.failure,
          contentType: textOf(reply.getHeader('content-type')),
          location: textOf(reply.getHeader('location')),
          body: toBytes(payload),
        };
        request.repeat.end(response, request.deadline.leftMs).then(() => done(), done);
      },
    ];
  });
}

/** True: continue. False: the request is answered already, as a repeat or because its deadline passed. */
async function begin(
  idempotency: IdempotencyStore,
  repeat: Repeat,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<boolean> {
  const { method, url, accessToken, deadline, routeOptions } = request;
  const who = {
    caller: ownerOf(request),
    user: repeatUserOf(null, accessToken),
    method,
    path: pathOf(url),
  };
  const answer = await repeat.begin(idempotency, who, deadline);
  if (deadline.isOver) return false;
  if (answer) {
    await routeOptions.config.beforeReplay?.(request);
    replay(reply, answer);
    return false;
  }
  return true;
}

/** Requests of operators are kept as those of an account of their own, which nobody else has. */
function ownerOf(request: FastifyRequest): Caller {
  const { operator } = request;
  if (!operator) return callerOf(request);
  return {
    ...({ kind: 'account', role: 'viewer', projects: [], isOperator: true, person: null } as const),
    keyId: operator.keyId,
    accountId: `operator ${operator.keyId}`,
    maxPerSecond: null,
    expiresAt: null,
  };
}

function replay(reply: FastifyReply, { status, contentType, location, body }: Answer): void {
  reply.status(status).header('idempotency-replayed', 'true');
  if (contentType !== null) reply.header('content-type', contentType);
  if (location !== null) reply.header('location', location);
  reply.send(body);
}

/** null: a stream. */
function toBytes(payload: unknown): Buffer | null {
  if (payload === null || payload === undefined) return Buffer.alloc(0);
  if (typeof payload === 'string') return Buffer.from(payload);
  return Buffer.isBuffer(payload) ? payload : null;
}

function textOf(header: unknown): string | null {
  return typeof header === 'string' ? header : null;
}
