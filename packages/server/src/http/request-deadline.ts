// The time that a request may take in all. Each layer below has limits of its own; whatever hangs there, the caller is
// answered by this one, and what still runs is stopped or can no longer begin.
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { errors, type RowhouseError } from '../errors.ts';

declare module 'fastify' {
  interface FastifyRequest {
    deadline: RequestDeadline;
  }
  interface FastifyContextConfig {
    /** The body may hold timeout_ms. */
    hasTimeout?: boolean;
    /** What may have changed something is noted where it is sent, not when the handler begins. */
    notesChanges?: boolean;
  }
}

/** Without a timeout of its own, every request is answered within 30 s. */
const answerWithinMs = 29_500;
/** For cancelling a statement and ending its session, after its own time. */
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
  /** From now on nobody can say that nothing was changed. */
  mayHaveChanged = false;
  /** The caller was told that it took too long: nothing may begin any more. */
  isOver = false;
  private limitMs = answerWithinMs;
  /** In `running`; -1: not running. */
  private position = -1;
  private pausedAt: number | null = null;
  private readonly onOver: (error: RowhouseError) => void;
  /** Finds out how much time the caller has asked for, if that is not known after a while. */
  private peek: (() => number | null) | null;

  constructor(onOver: (error: RowhouseError) => void, peek: (() => number | null) | null = null) {
    this.onOver = onOver;
    this.peek = peek;
  }

  start(): this {
    this.startedAt = performance.now();
    this.position = runningCount;
    running[runningCount++] = this;
    ticking ??= setInterval(tick, tickMs).unref();
    return this;
  }

  /** A statement may take this long; then it is stopped, which takes a moment. */
  allow(timeoutMs: number): void {
    this.limitMs = timeoutMs + graceMs;
    this.peek = null;
  }

  /** How long until the caller has to be answered. */
  get leftMs(): number {
    return Math.max(0, this.startedAt + this.limitMs - performance.now());
  }

  /** While the caller takes its time. */
  pause(): void {
    this.pausedAt = performance.now();
  }

  resume(): void {
    if (this.pausedAt !== null) this.startedAt += performance.now() - this.pausedAt;
    this.pausedAt = null;
  }

  /** It is being answered. */
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

/** A key that is looked up for longer than this: PostgreSQL is in trouble, and the body waits unread. */
const peekAfterMs = 300;

/** Call before all other hooks, and before the routes are made. */
export function registerDeadlines(app: FastifyInstance): void {
  app.decorateRequest('deadline', null as unknown as RequestDeadline);
  app.addHook('onRequest', (request, reply, done) => {
    const peek = request.routeOptions.config?.hasTimeout ? () => peekTimeout(request.raw) : null;
    request.deadline = new RequestDeadline((error) => void reply.send(error), peek).start();
    done();
  });
  app.addHook('preParsing', (request, _reply, _payload, done) => {
    request.deadline.pause();
    done();
  });
  app.addHook('preValidation', (request, _reply, done) => {
    const { deadline, body, routeOptions } = request;
    deadline.resume();
    const asked = routeOptions.config?.hasTimeout && (body as { timeout_ms?: unknown } | null)?.timeout_ms;
    if (typeof asked === 'number' && asked >= 1) deadline.allow(asked);
    done();
  });
  app.addHook('onSend', (request, _reply, _payload, done) => {
    // What is answered before the hooks above has none.
    request.deadline?.end();
    done();
  });
  app.addHook('onResponse', (request, _reply, done) => {
    request.deadline?.end();
    done();
  });
  app.addHook('onRoute', (route) => {
    const { handler, config } = route;
    route.handler = function (request, reply) {
      const { deadline, method } = request;
      // Whoever was told that nothing was changed must be able to rely on it.
      if (deadline.isOver) return reply;
      if (!config?.notesChanges && method !== 'GET' && method !== 'HEAD') deadline.mayHaveChanged = true;
      return handler.call(this, request, reply);
    };
  });
}

const timeoutField = /"timeout_ms"\s*:\s*(\d{1,9})\b/g;

/**
 * Of what has arrived of a body that nobody has read yet; it is left as it is. The caller is not known, so that nothing
 * more of it is taken in. The largest, if the name stands there more than once: it may be a value of the caller's too.
 */
function peekTimeout(raw: IncomingMessage): number | null {
  // To read a body that turns out to be empty would end it before its parser listens.
  if (!(Number(raw.headers['content-length']) > 0)) return null;
  const piece = raw.readableEnded || raw.destroyed ? null : (raw.read() as Buffer | null);
  if (piece === null) return null;
  raw.unshift(piece);
  const found = [...piece.toString('latin1').matchAll(timeoutField)].map(([, digits]) => Number(digits));
  return found.length > 0 ? Math.max(1, ...found) : null;
}
