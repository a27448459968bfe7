// The deadline of a whole request. Each layer below has limits of its own. If something hangs there, this deadline still
// answers the caller, and work that is running is stopped or can no longer begin.

import type { IncomingMessage } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { errors, type RowhouseError } from '../../errors/errors.ts';
import { answerWithinMs } from '../../settings/limits/requests.ts';

declare module 'fastify' {
  interface FastifyRequest {
    deadline: RequestDeadline;
  }
  interface FastifyContextConfig {
    /** Possible changes are noted when a statement is sent, not when the handler begins. */
    notesChanges?: boolean;
    /** For a route that may take longer than others. */
    answerWithinMs?: number;
  }
}

/** For cancelling a statement and ending its session after its timeout. */
const graceMs = 900;
const tickMs = 50;

/**
 * One timer checks all deadlines: hardly any lasts long enough to need one of its own. The array keeps its length. A Set
 * copies itself after a few dozen deletions, and the old copies keep finished requests alive until a full garbage
 * collection: that cost 10 % of the processor time.
 */
const running: (RequestDeadline | null)[] = [];
let runningCount = 0;
let ticking: NodeJS.Timeout | null = null;

function tick(): void {
  const now = performance.now();
  // Backwards: a deadline that ends moves the last one into its place.
  for (let n = runningCount - 1; n >= 0; n--) running[n]?.look(now);
  if (runningCount > 0 || !ticking) return;
  clearInterval(ticking);
  ticking = null;
}

export class RequestDeadline {
  startedAt = 0;
  /** From now on, the service can no longer promise that nothing was changed. */
  mayHaveChanged = false;
  /** The caller got the timeout error: nothing may begin any more. */
  isOver = false;
  /** The SQL that the caller sent, for the log of the project. */
  statement: string | (() => string) | null = null;
  private limitMs = answerWithinMs;
  /** Index in `running`; -1: not running. */
  private position = -1;
  private pausedAt: number | null = null;
  private readonly onOver: (error: RowhouseError) => void;
  /** Finds the timeout_ms of the caller, if it is still unknown after a while. */
  private peek: (() => number | null) | null;

  constructor(onOver: (error: RowhouseError) => void, peek: (() => number | null) | null = null) {
    this.onOver = onOver;
    this.peek = peek;
  }

  start(): this {
    this.startedAt = performance.now();
    if (this.position >= 0) return this;
    this.position = runningCount;
    running[runningCount++] = this;
    ticking ??= setInterval(tick, tickMs).unref();
    return this;
  }

  /** A statement may take this long. Stopping it afterwards takes a moment. */
  allow(timeoutMs: number): void {
    this.limitMs = timeoutMs + graceMs;
    this.peek = null;
  }

  /** The time until the caller must be answered. */
  get leftMs(): number {
    return Math.max(0, this.startedAt + this.limitMs - performance.now());
  }

  /** While the service waits for the caller to send. */
  pause(): void {
    this.pausedAt = performance.now();
  }

  resume(): void {
    if (this.pausedAt !== null) this.startedAt += performance.now() - this.pausedAt;
    this.pausedAt = null;
  }

  /** The request is being answered. */
  end(): void {
    if (this.position < 0) return;
    const last = running[--runningCount] as RequestDeadline;
    running[this.position] = last;
    last.position = this.position;
    running[runningCount] = null;
    this.position = -1;
  }

  look(now: number): void {
    const usedMs = now - this.startedAt;
    if (this.pausedAt !== null) return;
    if (this.peek && usedMs > peekAfterMs) {
      const asked = this.peek();
      if (asked !== null) this.allow(asked);
      else if (usedMs > peekAfterMs + 4 * tickMs) this.peek = null;
    }
    if (usedMs < this.limitMs) return;
    this.end();
    this.isOver = true;
    this.onOver(this.mayHaveChanged ? errors.noAnswerToChange() : errors.noAnswer());
  }
}

/** If the lookup of a key takes longer than this, PostgreSQL has a problem, and the body has not been read. */
const peekAfterMs = 300;

/** Call before all other hooks, and before the routes are registered. */
export function registerDeadlines(app: FastifyInstance): void {
  app.decorateRequest('deadline', null as unknown as RequestDeadline);
  app.addHook('onRequest', (request, reply, done) => {
    request.deadline = new RequestDeadline((error) => void reply.send(error)).start();
    done();
  });
  app.addHook('preParsing', (request, _reply, _payload, done) => {
    request.deadline.pause();
    done();
  });
  app.addHook('preValidation', (request, _reply, done) => {
    request.deadline.resume();
    done();
  });
  app.addHook('onSend', (request, _reply, _payload, done) => {
    // A request that is answered before the hooks above has no deadline.
    request.deadline?.end();
    done();
  });
  app.addHook('onResponse', (request, _reply, done) => {
    request.deadline?.end();
    done();
  });
  app.addHook('onRoute', (route) => {
    const { handler, config } = route;
    const withinMs = config?.answerWithinMs;
    route.handler = function (request, reply) {
      const { deadline, method } = request;
      // The caller got the error that nothing was changed, so nothing must change now.
      if (deadline.isOver) return reply;
      if (!config?.notesChanges && method !== 'GET' && method !== 'HEAD') deadline.mayHaveChanged = true;
      if (withinMs !== undefined) deadline.allow(withinMs);
      return handler.call(this, request, reply);
    };
  });
}

const timeoutField = /"timeout_ms"\s*:\s*(\d{1,9})\b/g;

/**
 * Reads the part of the body that has arrived, and leaves it in place for the parser. The caller is not authenticated
 * yet, so that nothing more is read. If the name occurs several times, the largest number counts: one of them may be part
 * of a value.
 */
export function peekTimeout(body: Buffer | IncomingMessage): number | null {
  const piece = Buffer.isBuffer(body) ? body : arrivedOf(body);
  if (piece === null) return null;
  const found = [...piece.toString('latin1').matchAll(timeoutField)].map(([, digits]) => Number(digits));
  return found.length > 0 ? Math.max(1, ...found) : null;
}

function arrivedOf(raw: IncomingMessage): Buffer | null {
  // Reading an empty body would end the stream before its parser listens.
  if (!(Number(raw.headers['content-length']) > 0)) return null;
  const piece = raw.readableEnded || raw.destroyed ? null : (raw.read() as Buffer | null);
  if (piece !== null) raw.unshift(piece);
  return piece;
}
