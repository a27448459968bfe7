// An endpoint for data, declared once, and a request to one on its way through the pipeline (pipeline.ts).
import type { ErrorCode } from '@rowhouse/api';
import type { FastifySchema } from 'fastify';
import type Type from 'typebox';
import type { RowhouseError } from '../../errors/errors.ts';
import type { Caller, OperatorCaller } from '../../keys/caller.ts';
import type { Action } from '../../keys/roles.ts';
import type { Answer, HeldAnswer } from '../../query/exchange/held-answer.ts';
import type { Reader } from '../../query/exchange/reader.ts';
import type { ProjectLogin } from '../../servers/databases/login.ts';
import type { Changed } from '../../tables/changes.ts';
import type { ImportFormat } from '../../tables/import/import.ts';
import type { Deps } from '../deps.ts';
import type { Head, HttpExchange } from '../http-exchange.ts';
import type { BodyMemory } from '../request/body-memory.ts';
import type { AcceptsToken } from '../request/caller.ts';
import type { Numbers } from '../request/json-body.ts';
import type { Repeat } from '../request/repeats.ts';
import { peekTimeout, RequestDeadline } from '../request/request-deadline.ts';
import type { Accepted } from '../request/row-format.ts';
import { stalenessHeader, unknownPosition } from '../request/staleness.ts';
import { requestIdOf } from '../request/trace.ts';
import { json } from '../response/content-type.ts';
import type { Voice } from '../response/error-response.ts';
import type { Finished } from '../response/request-log.ts';

export type DataRoute = Readonly<{
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** Behind the prefix of the way. */
  path: string;
  /** For the table of roles. */
  action?: Action;
  acceptsToken?: AcceptsToken;
  /** The schema of its JSON body. Without one, the table decides what the input is, and reads the query string too. */
  input?: Type.TSchema;
  numbers?: Numbers;
  /** It gets its body as SentRows. */
  takesRows?: boolean;
  /** Further types of JSON bodies. */
  jsonTypes?: readonly string[];
  /** Types of bodies that are streamed instead of read into memory. */
  streamed?: Readonly<Record<string, ImportFormat>>;
  bodyLimit: number;
  /** The body can have timeout_ms. */
  hasTimeout?: boolean;
  /** Standbys can answer, or the response says from which position on they know the change. */
  readsStandbys?: boolean;
  /** The response can have the rows alone, in another format than JSON. */
  givesRows?: boolean;
  /** The response has the size of the project, and from which position on standbys know the change if the caller asks. */
  tellsChange?: boolean;
  status: 200 | 201;
  voice?: Voice;
  /** Beside what every request with a key, a body or a project shares (openapi/failures.ts). */
  fails: readonly ErrorCode[];
  /** For the OpenAPI document. */
  schema: FastifySchema;
  /** Before the body is read. */
  admit?: Step;
  run: (request: RunningRequest) => Promise<Answer | Changed>;
}>;

/** A promise only if it has to wait. */
export type Step = (request: DataRequest) => void | Promise<void>;

/** Who calls, and what the response says in addition, depend on where a request comes in. */
export type Way = Readonly<{
  prefix: string;
  identify: Step;
  headOf: (exchange: HttpExchange) => Head;
}>;

export type Params = Readonly<{ slug: string; table: string }>;
/** A route behind one of the ways, opened. */
export type Endpoint = Readonly<{
  deps: Deps;
  way: Way;
  route: DataRoute;
  onFinished: (finished: Finished) => void;
  onError: (request: DataRequest, error: Error) => void;
}>;

/** Statements run as this login. */
export type RunningRequest = DataRequest & { caller: Caller; login: ProjectLogin };

/** Also the reader of its rows: the response is a stream with backpressure, whose headers are sent with the first write. */
export class DataRequest implements Reader {
  readonly endpoint: Endpoint;
  readonly exchange: HttpExchange;
  readonly params: Params;
  readonly requestId: string;
  readonly arrivedAt = performance.now();
  readonly deadline: RequestDeadline;
  /** The headers of the response, as far as they are known. */
  readonly head: string[];
  caller: Caller | null = null;
  operator: OperatorCaller | null = null;
  /** The token that came with the API key, of a user or for acting as one. It is not verified yet. */
  accessToken: string | null = null;
  /** With a valid access token: as that user. With a publishable key alone: as `anon`. */
  login: ProjectLogin | null = null;
  /** JSON by the schema of the route, SentRows, or SentStream. */
  body: unknown;
  memory: BodyMemory | null = null;
  repeat: Repeat | null = null;
  /** null: JSON. */
  accepted: Accepted | null = null;
  failure: RowhouseError | null = null;
  /** The response is decided: nothing else may begin. */
  isAnswered = false;
  hasBegun = false;
  private hasEnded = false;

  constructor(endpoint: Endpoint, exchange: HttpExchange, params: Params) {
    const { way, route, onError } = endpoint;
    this.endpoint = endpoint;
    this.exchange = exchange;
    this.params = params;
    this.requestId = requestIdOf(exchange.headers);
    this.head = ['x-request-id', this.requestId, ...way.headOf(exchange)];
    const peek = route.hasTimeout ? () => peekTimeout(exchange.body) : null;
    this.deadline = new RequestDeadline((error) => onError(this, error), peek).start();
  }

  get deps(): Deps {
    return this.endpoint.deps;
  }

  get route(): DataRoute {
    return this.endpoint.route;
  }

  get rawQuery(): string {
    const { url } = this.exchange;
    const at = url.indexOf('?');
    return at < 0 ? '' : url.slice(at + 1);
  }

  get contentType(): string {
    return this.accepted?.contentType ?? json;
  }

  /** Whether the response has to say from which position on standbys know the change. */
  get wantsPosition(): boolean {
    return this.exchange.headers[stalenessHeader] !== undefined && this.deadline.mayHaveChanged;
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
    // Nothing of what it changes is committed yet.
    if (!this.hasBegun) this.begin(this.route.status, this.wantsPosition ? unknownPosition : []);
    return this.exchange.write(bytes, onSent);
  }

  drained(carryOn: () => void): void {
    this.exchange.drained(carryOn);
  }

  end(): void {
    this.hasEnded = true;
    this.exchange.end();
  }

  /** Sends all pieces at the pace of the client, without joining them. */
  sendHeld(held: HeldAnswer, status: number): void {
    const { exchange, repeat } = this;
    if (this.isGone) {
      repeat?.endStream(true, status);
      return held.release();
    }
    this.begin(status, ['content-length', String(held.size)]);
    exchange.onEnd(() => held.release());
    const sendMore = () => {
      let hasRoom = true;
      while (hasRoom) {
        const piece = held.shift();
        if (!piece) return this.end();
        hasRoom = exchange.write(piece);
      }
      exchange.drained(sendMore);
    };
    sendMore();
  }

  private begin(status: number, more: Head): void {
    const { exchange, repeat, head } = this;
    this.hasBegun = true;
    this.deadline.end();
    // It is too large to be kept for repeats.
    if (repeat?.isReserved) exchange.onEnd(() => repeat.endStream(this.hasEnded, status));
    exchange.begin(status, [...head, ...more, 'content-type', this.contentType]);
  }
}
