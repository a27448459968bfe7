// Idempotency-Key on any POST: reserves the key between validation and handler, stores the response before it is sent,
// and answers repeats instead of the handler. A request without the header passes through.
import { createHash, type Hash } from 'node:crypto';
import { finished, type Readable, Transform } from 'node:stream';
import { finished as ended } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import { errors, type RowhouseError } from '../../errors/errors.ts';
import type { Answer, IdempotencyStore, Outcome, Reservation } from '../../jobs/idempotency.ts';
import type { Caller } from '../../keys/caller.ts';
import { fateOf, wasRaised } from '../../query/exchange/failures.ts';
import { callerOf } from './caller.ts';

declare module 'fastify' {
  interface FastifyRequest {
    repeat: Repeat | null;
  }
  interface FastifyContextConfig {
    /** Throws if the caller must not get the stored response of this route again. */
    beforeReplay?: (request: FastifyRequest) => void | Promise<void>;
  }
}

type Repeat = { key: string; body: HashedBody; reservation: Reservation | null };

export const idempotencyHeader = 'idempotency-key';
const form = /^[\x21-\x7e]{1,255}$/;

/** Call before the routes are registered. */
export function acceptIdempotencyKeys(app: FastifyInstance, idempotency: IdempotencyStore): void {
  app.decorateRequest('repeat', null);
  app.addHook('onRoute', (route) => {
    if (route.method !== 'POST') return;
    const { preParsing, preHandler, onSend }: Partial<RouteOptions> = route;
    route.preParsing = [
      (request, reply, payload, done) => {
        const key = request.headers[idempotencyHeader];
        if (key === undefined) return done();
        if (typeof key !== 'string' || !form.test(key)) return done(badKey());
        const body = hashBody(request, reply, payload);
        request.repeat = { key, body, reservation: null };
        done(null, body.stream);
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
        const reservation = request.repeat?.reservation;
        if (!request.repeat || !reservation) return done();
        const outcome = outcomeOf(request.repeat.body, reply, payload);
        request.repeat.reservation = null;
        // A response that cannot be stored in time is stored later. Until then, a repeat learns that the first is running.
        inTime(reservation.end(outcome), request.deadline.leftMs).then(() => done(), done);
      },
    ];
  });
}

async function inTime(work: Promise<void>, ms: number): Promise<void> {
  const late = new AbortController();
  const time = sleep(ms, undefined, { signal: late.signal, ref: false }).catch(() => {});
  await Promise.race([work, time]).finally(() => late.abort());
}

/** True: continue. False: the request is answered already, as a repeat or because its deadline passed. */
async function begin(
  idempotency: IdempotencyStore,
  repeat: Repeat,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<boolean> {
  const caller = ownerOf(request);
  const found = await idempotency.begin({
    caller,
    // A token that is not verified yet identifies its user: no other user has the same.
    user: userOf(request),
    method: request.method,
    path: pathOf(request.url),
    key: repeat.key,
    fingerprint: repeat.body.fingerprint(),
    readToEnd: repeat.body.readToEnd,
  });
  if ('answer' in found) {
    if (request.deadline.isOver) return false;
    await request.routeOptions.config.beforeReplay?.(request);
    replay(reply, found.answer);
    return false;
  }
  if (request.deadline.isOver) {
    // The caller learned that nothing ran, so nothing must run.
    void found.reservation.end({ is: 'nothing_ran' });
    return false;
  }
  repeat.reservation = found.reservation;
  watchStreaming(repeat, reply);
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

function userOf({ login, accessToken }: FastifyRequest): string | null {
  const actingUser = login?.actingUser;
  if (actingUser?.role === 'authenticated') return actingUser.userId;
  // Anonymous with a token for it, which must not be stored.
  return actingUser && accessToken !== null ? actingUser.role : accessToken;
}

/** A streamed response is too large to store. One that was cut off does not show whether the change was made. */
function watchStreaming(repeat: Repeat, reply: FastifyReply): void {
  const { raw, hijack } = reply;
  const end = () => {
    const { reservation, body } = repeat;
    repeat.reservation = null;
    const fingerprint = body.fingerprint();
    const outcome: Outcome = raw.writableEnded
      ? { is: 'not_kept', fingerprint, status: raw.statusCode }
      : { is: 'unknown', fingerprint };
    void reservation?.end(outcome);
  };
  reply.hijack = () => {
    if (raw.destroyed) end();
    else raw.once('close', end);
    return hijack.call(reply);
  };
}

function replay(reply: FastifyReply, { status, contentType, location, body }: Answer): void {
  reply.status(status).header('idempotency-replayed', 'true');
  if (contentType !== null) reply.header('content-type', contentType);
  if (location !== null) reply.header('location', location);
  reply.send(body);
}

function outcomeOf(body: HashedBody, reply: FastifyReply, payload: unknown): Outcome {
  const { failure } = reply.request;
  const status = failure?.status ?? reply.statusCode;
  const fingerprint = body.fingerprint();
  const bytes = toBytes(payload);
  // An error that the project's code raises would occur again, and a procedure may have committed before it.
  const is = status < 400 || wasRaised(failure) ? 'answered' : fateAfter(failure, status);
  if (is === 'nothing_ran') return { is };
  if (is === 'unknown') return { is, fingerprint };
  if (bytes === null || fingerprint === null)
    return { is: 'not_kept', fingerprint, status: reply.statusCode };
  const contentType = textOf(reply.getHeader('content-type'));
  const location = textOf(reply.getHeader('location'));
  return { is, fingerprint, answer: { status: reply.statusCode, contentType, location, body: bytes } };
}

/**
 * A failure is stored if it would occur again. A temporary one, or one because of the API key, frees the key. The decision
 * depends on the error, not on its status, because other protocols use other statuses. A request that may have committed
 * never runs again.
 */
function fateAfter(error: RowhouseError | null, status: number): 'answered' | 'unknown' | 'nothing_ran' {
  if (error?.code === 'outcome_unknown' || error?.code === 'internal_error') return 'unknown';
  const fate = error && fateOf(error);
  // PostgreSQL reported how it ended, or the service stopped it: nothing more can be learned.
  if (error && fate === 'uncertain') return error.sql || isFull(error) ? 'answered' : 'unknown';
  if (error?.code === 'query_timeout' && fate !== 'undone') return 'unknown';
  if (![400, 409, 422].includes(status)) return 'nothing_ran';
  const details = error?.details as { retryable?: boolean } | undefined;
  if (details?.retryable === true || momentary.test(error?.sql?.state ?? '')) return 'nothing_ran';
  return 'answered';
}

function isFull({ code }: RowhouseError): boolean {
  return code === 'project_full' || code === 'server_full';
}

/** SQLSTATE classes of temporary failures: rollback, resources, locks, operator intervention, the system. */
const momentary = /^(40|53|55|57|58)/;

/** null: a stream. */
function toBytes(payload: unknown): Buffer | null {
  if (payload === null || payload === undefined) return Buffer.alloc(0);
  if (typeof payload === 'string') return Buffer.from(payload);
  return Buffer.isBuffer(payload) ? payload : null;
}

function textOf(header: unknown): string | null {
  return typeof header === 'string' ? header : null;
}

type HashedBody = {
  stream: Readable;
  /** SHA-256 of the query string and the body; null until the body has been read to its end. */
  fingerprint(): Buffer | null;
  readToEnd(): Promise<Buffer>;
};

/** Hashes the body as it is read, whether at once or in pieces. */
function hashBody({ headers, url }: FastifyRequest, { raw }: FastifyReply, payload: Readable): HashedBody {
  const hash: Hash = createHash('sha256').update(`${url.slice(pathOf(url).length)}\n`);
  const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
  let digest: Buffer | null = hasBody ? null : hash.copy().digest();
  const stream = new Transform({
    transform(chunk, _encoding, done) {
      hash.update(chunk);
      done(null, chunk);
    },
    flush(done) {
      digest = hash.digest();
      done();
    },
  });
  // Not stream.pipeline: a reader that stops early must not destroy the connection, because its response must be sent.
  payload.pipe(stream);
  finished(payload, { writable: false }, (error) => error && stream.destroy(error));
  stream.on('error', () => {});
  // An unread rest is discarded, or the next request on this connection would wait behind it.
  raw.once('finish', () => payload.unpipe(stream).resume());
  return {
    stream,
    fingerprint: () => digest,
    readToEnd: async () => {
      await ended(stream.resume(), { writable: false });
      if (digest === null) throw errors.requestTimeout();
      return digest;
    },
  };
}

function pathOf(url: string): string {
  const end = url.indexOf('?');
  return end === -1 ? url : url.slice(0, end);
}

function badKey() {
  return errors.invalidRequest([
    { path: idempotencyHeader, problem: 'must be 1 to 255 visible ASCII characters, without spaces' },
  ]);
}
