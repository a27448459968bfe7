// Idempotency-Key on any POST: reserves the key between validation and handler, keeps what is answered before it is sent,
// and answers repeats in the handler's place. A request without the header passes through.
import { createHash, type Hash } from 'node:crypto';
import { finished, type Readable, Transform } from 'node:stream';
import { finished as ended } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import { errors, type RowhouseError } from '../errors.ts';
import type { Answer, IdempotencyStore, Outcome, Reservation } from '../idempotency.ts';
import { fateOf, wasRaised } from '../query/exchange/failures.ts';
import { callerOf } from './caller.ts';

declare module 'fastify' {
  interface FastifyRequest {
    repeat: Repeat | null;
  }
  interface FastifyContextConfig {
    /** Throws if the caller must not see this route's answer again, although it was its own. */
    beforeReplay?: (request: FastifyRequest) => void | Promise<void>;
  }
}

type Repeat = { key: string; body: HashedBody; reservation: Reservation | null };

export const idempotencyHeader = 'idempotency-key';
const form = /^[\x21-\x7e]{1,255}$/;

/** Call before the routes are made. */
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
        // What cannot be kept in time is kept later: until then a repeat is told that the first still runs.
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

/** True: go on. False: it is answered, as a repeat or because it took too long. */
async function begin(
  idempotency: IdempotencyStore,
  repeat: Repeat,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<boolean> {
  const caller = callerOf(request);
  const found = await idempotency.begin({
    caller,
    // Where nobody has looked at a token yet, it stands for itself: no other user has the same.
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
    // The caller was told that nothing ran, so nothing will.
    void found.reservation.end({ is: 'nothing_ran' });
    return false;
  }
  repeat.reservation = found.reservation;
  watchStreaming(repeat, reply);
  return true;
}

function userOf({ login, accessToken }: FastifyRequest): string | null {
  const actingUser = login?.actingUser;
  return actingUser?.role === 'authenticated' ? actingUser.userId : accessToken;
}

/** An answer that a handler streams by itself is too large to keep; one that broke off tells nothing about the change. */
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
  // What the project's own code raises would be the same again; and a procedure may have committed before it.
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
 * A failure is kept if it would be the same again; one that comes of the moment, or of the key, leaves the way free. By what
 * happened, not by how it is said: other protocols have words of their own. What may have been committed never runs again.
 */
function fateAfter(error: RowhouseError | null, status: number): 'answered' | 'unknown' | 'nothing_ran' {
  if (error?.code === 'outcome_unknown' || error?.code === 'internal_error') return 'unknown';
  const fate = error && fateOf(error);
  // PostgreSQL has said how it ended, or we have ended it: there is nothing more to be told.
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

/** SQLSTATE classes of a server or a neighbour in the way: rollback, resources, locks, an operator, the system. */
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

/** Hashed as it passes: whoever reads the body, at once or in pieces, reads it through here. */
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
  // Not a pipeline: a reader that gives up in the middle must not take the connection with it, its answer has to go out.
  payload.pipe(stream);
  finished(payload, { writable: false }, (error) => error && stream.destroy(error));
  stream.on('error', () => {});
  // What nobody read is let through, or the next request on this connection would wait behind it.
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
