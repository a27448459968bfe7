// Idempotency-Key: reserves the key before anything runs, stores the response before it is sent, and tells a repeat what it
// was. A request without the header has no Repeat.
import { createHash, type Hash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { finished, type Readable, Transform } from 'node:stream';
import { finished as ended } from 'node:stream/promises';
import { errors, type RowhouseError } from '../../errors/errors.ts';
import type {
  Answer,
  IdempotencyStore,
  IdempotentRequest,
  Outcome,
  Reservation,
} from '../../jobs/idempotency.ts';
import { fateOf, wasRaised } from '../../query/exchange/failures.ts';
import type { ProjectLogin } from '../../servers/databases/login.ts';
import type { RequestDeadline } from './request-deadline.ts';

export const idempotencyHeader = 'idempotency-key';
const form = /^[\x21-\x7e]{1,255}$/;

/** null: the request has none. */
export function readRepeatKey(headers: IncomingHttpHeaders): string | null {
  const key = headers[idempotencyHeader];
  if (key === undefined) return null;
  if (typeof key === 'string' && form.test(key)) return key;
  throw errors.invalidRequest([
    { path: idempotencyHeader, problem: 'must be 1 to 255 visible ASCII characters, without spaces' },
  ]);
}

/** Tells users apart: a token that is not verified yet identifies its user, because no other user has the same. */
export function repeatUserOf(login: ProjectLogin | null, accessToken: string | null): string | null {
  const actingUser = login?.actingUser;
  if (actingUser?.role === 'authenticated') return actingUser.userId;
  // Anonymous with a token for it, which must not be stored.
  return actingUser && accessToken !== null ? actingUser.role : accessToken;
}

type Who = Pick<IdempotentRequest, 'caller' | 'user' | 'method' | 'path'>;
type Ended = Readonly<{
  status: number;
  failure: RowhouseError | null;
  contentType: string | null;
  location: string | null;
  /** null: it was streamed. */
  body: Buffer | null;
}>;

export class Repeat {
  private reservation: Reservation | null = null;
  private readonly key: string;
  private readonly body: HashedBody;

  constructor(key: string, body: HashedBody) {
    this.key = key;
    this.body = body;
  }

  get isReserved(): boolean {
    return this.reservation !== null;
  }

  /** The response to the first request with this key. null: this is the first. If the deadline has passed, nothing may run any more. */
  async begin(store: IdempotencyStore, who: Who, deadline: RequestDeadline): Promise<Answer | null> {
    const { fingerprint, readToEnd } = this.body;
    const found = await store.begin({ ...who, key: this.key, fingerprint: fingerprint(), readToEnd });
    if ('answer' in found) return found.answer;
    // The caller learned that nothing ran, so nothing must run.
    if (deadline.isOver) void found.reservation.end({ is: 'nothing_ran' });
    else this.reservation = found.reservation;
    return null;
  }

  /** A response that cannot be stored in time is stored later. Until then, a repeat learns that the first is running. */
  async end(response: Ended, leftMs: number): Promise<void> {
    const { reservation } = this;
    this.reservation = null;
    if (reservation) await inTime(reservation.end(outcomeOf(this.body, response)), leftMs);
  }

  /** A streamed response is too large to store. One that was cut off does not show whether the change was made. */
  endStream(isWhole: boolean, status: number): void {
    const { reservation, body } = this;
    this.reservation = null;
    const fingerprint = body.fingerprint();
    void reservation?.end(isWhole ? { is: 'not_kept', fingerprint, status } : { is: 'unknown', fingerprint });
  }
}

async function inTime(work: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms).unref();
  });
  await Promise.race([work, over]);
  clearTimeout(timer);
}

function outcomeOf(hashed: HashedBody, { status, failure, contentType, location, body }: Ended): Outcome {
  // Other protocols use other statuses for the same error.
  const meant = failure?.status ?? status;
  const fingerprint = hashed.fingerprint();
  // An error that the project's code raises would occur again, and a procedure may have committed before it.
  const is = meant < 400 || wasRaised(failure) ? 'answered' : fateAfter(failure, meant);
  if (is === 'nothing_ran') return { is };
  if (is === 'unknown') return { is, fingerprint };
  if (body === null || fingerprint === null) return { is: 'not_kept', fingerprint, status };
  return { is, fingerprint, answer: { status, contentType, location, body } };
}

/**
 * A failure is stored if it would occur again. A temporary one, or one because of the API key, frees the key. A request that
 * may have committed never runs again.
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

export type HashedBody = {
  /** SHA-256 of the query string and the body; null until the body has been read to its end. */
  fingerprint(): Buffer | null;
  readToEnd(): Promise<Buffer>;
};

export function hashBytes(url: string, bytes: Buffer): HashedBody {
  const digest = beginHash(url).update(bytes).digest();
  return { fingerprint: () => digest, readToEnd: async () => digest };
}

/** Hashes the body while `stream` is read. */
export function hashStream(
  url: string,
  headers: IncomingHttpHeaders,
  payload: Readable,
): HashedBody & { stream: Readable } {
  const hash = beginHash(url);
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

function beginHash(url: string): Hash {
  return createHash('sha256').update(`${url.slice(pathOf(url).length)}\n`);
}

export function pathOf(url: string): string {
  const end = url.indexOf('?');
  return end === -1 ? url : url.slice(0, end);
}
