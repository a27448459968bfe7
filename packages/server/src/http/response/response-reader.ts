// A response as a stream with backpressure. The headers are sent with the first write.
import type { OutgoingHttpHeaders } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { errors, RowhouseError } from '../../errors/errors.ts';
import { type Answer, HeldAnswer } from '../../query/exchange/held-answer.ts';
import type { Reader } from '../../query/exchange/reader.ts';
import type { ProjectLogin } from '../../servers/databases/provision.ts';
import type { Deps } from '../deps.ts';
import { type HttpExchange, NodeExchange } from '../http-exchange.ts';
import type { RequestDeadline } from '../request/request-deadline.ts';
import { positionHeaders, unknownPosition, wantsPosition } from '../request/staleness.ts';
import { onResponseEnd } from '../response-end.ts';

export const json = 'application/json; charset=utf-8';

/** How much may wait for a slow client before reading from PostgreSQL pauses. */
const unsentBytes = 256 * 1024;

export function readerOf(reply: FastifyReply, status = 200, contentType = json): ResponseReader {
  const begin = (isCommitted: boolean) => {
    reply.hijack();
    if (!isCommitted && wantsPosition(reply.request)) reply.headers(unknownPosition);
    return reply.getHeaders() as OutgoingHttpHeaders;
  };
  const exchange = new NodeExchange(reply.request.raw, reply.raw);
  return new ResponseReader(exchange, begin, reply.request.deadline, status, contentType);
}

/** The last known size of the project, for responses to requests that may have made it larger. It is not measured here. */
export function sizeHeaders({ query }: Deps, projectId: string): Record<string, string> {
  const room = query.admission.headroom.recall(projectId);
  return room ? { 'x-project-size': String(room.size_mb), 'x-project-limit': String(room.limit_mb) } : {};
}

/** Sends a whole response, ends one that was streamed, cuts off one that failed while it was streamed. */
export async function respond(
  deps: Deps,
  request: FastifyRequest,
  reply: FastifyReply,
  reader: ResponseReader,
  answering: Promise<Answer>,
  /** The project, if the request may have changed something. */
  project?: ProjectLogin,
): Promise<FastifyReply> {
  try {
    const answer = await answering;
    if (project && !reader.hasBegun && wantsPosition(request))
      reply.headers(await positionHeaders(deps, project));
    if (reader.deadline.isOver) {
      if (answer instanceof HeldAnswer) answer.release();
      return reply;
    }
    if (project && answer !== null) reply.headers(sizeHeaders(deps, project.id));
    if (answer instanceof HeldAnswer) {
      reader.send(answer, {}, reply.statusCode);
      return reply;
    }
    if (answer !== null) return reply.header('content-type', reader.contentType).send(answer);
    reader.end();
  } catch (error) {
    if (!reader.hasBegun) throw error;
    deps.log.warn({ request_id: request.id, err: error }, 'a response was cut off');
    request.failure = error instanceof RowhouseError ? error : errors.internal(error);
    reader.breakOff();
  }
  return reply;
}

export class ResponseReader implements Reader {
  hasBegun = false;
  readonly deadline: RequestDeadline;
  readonly contentType: string;
  private readonly exchange: Pick<HttpExchange, 'response' | 'isGone'>;
  private readonly begin: (isCommitted: boolean) => OutgoingHttpHeaders;
  private readonly status: number;

  /**
   * `begin` is called once, when the response turns out to be a stream. It returns the headers. `isCommitted`: what the
   * request has changed, if anything.
   */
  constructor(
    exchange: Pick<HttpExchange, 'response' | 'isGone'>,
    begin: (isCommitted: boolean) => OutgoingHttpHeaders,
    deadline: RequestDeadline,
    status = 200,
    contentType = json,
  ) {
    this.exchange = exchange;
    this.begin = begin;
    this.deadline = deadline;
    this.status = status;
    this.contentType = contentType;
  }

  get isGone(): boolean {
    return this.deadline.isOver || this.exchange.isGone;
  }

  get leftMs(): number {
    return this.deadline.leftMs;
  }

  get startedAt(): number {
    return this.deadline.startedAt;
  }

  set startedAt(at: number) {
    this.deadline.startedAt = at;
  }

  get mayHaveChanged(): boolean {
    return this.deadline.mayHaveChanged;
  }

  set mayHaveChanged(value: boolean) {
    this.deadline.mayHaveChanged = value;
  }

  write(bytes: Buffer, onSent: (error?: Error | null) => void): boolean {
    // The caller already got the timeout error.
    if (this.deadline.isOver) return true;
    const raw = this.exchange.response;
    if (!this.hasBegun) {
      this.hasBegun = true;
      this.deadline.end();
      raw.writeHead(this.status, { ...this.begin(false), 'content-type': this.contentType });
    }
    // Node emits "drain" only after a write that returned false.
    return raw.write(bytes, onSent) || raw.writableLength < unsentBytes;
  }

  drained(carryOn: () => void): void {
    this.exchange.response.once('drain', carryOn);
  }

  end(): void {
    this.exchange.response.end();
  }

  /** Sends all pieces at the pace of the client, without joining them. */
  send(held: HeldAnswer, headers: OutgoingHttpHeaders, status: number): void {
    if (this.isGone) return held.release();
    const raw = this.exchange.response;
    this.hasBegun = true;
    this.deadline.end();
    const ended = { 'content-type': this.contentType, 'content-length': held.size };
    raw.writeHead(status, { ...this.begin(true), ...headers, ...ended });
    onResponseEnd(raw, () => held.release());
    const sendMore = () => {
      let hasRoom = true;
      while (hasRoom) {
        const piece = held.shift();
        if (!piece) return raw.end();
        hasRoom = raw.write(piece);
      }
      raw.once('drain', sendMore);
    };
    sendMore();
  }

  /** Part of the response is sent already: it must not look complete. */
  breakOff(): void {
    this.exchange.response.destroy();
  }
}
