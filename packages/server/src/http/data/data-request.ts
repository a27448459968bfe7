// An endpoint for data, declared once, and a request to one on its way through the pipeline (pipeline.ts).
import type { ErrorCode } from '@rowhouse/api';
import type { FastifySchema } from 'fastify';
import type Type from 'typebox';
import type { RowhouseError } from '../../errors/errors.ts';
import type { Caller, OperatorCaller } from '../../keys/caller.ts';
import type { Action } from '../../keys/roles.ts';
import type { Answer } from '../../query/exchange/held-answer.ts';
import type { ProjectLogin } from '../../servers/databases/provision.ts';
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
import { requestIdOf } from '../request/trace.ts';
import type { Voice } from '../response/error-response.ts';
import type { ResponseReader } from './response-reader.ts';

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
  /** The response has the size of the project. */
  tellsSize?: boolean;
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
type Asked = Readonly<{
  deps: Deps;
  way: Way;
  route: DataRoute;
  exchange: HttpExchange;
  params: Params;
  /** Called when time is up. */
  onOver: (request: DataRequest, error: RowhouseError) => void;
}>;

/** Statements run as this login, and the response goes to this reader. */
export type RunningRequest = DataRequest & { caller: Caller; login: ProjectLogin; reader: ResponseReader };

export class DataRequest {
  readonly deps: Deps;
  readonly way: Way;
  readonly route: DataRoute;
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
  reader: ResponseReader | null = null;
  failure: RowhouseError | null = null;
  /** The response is decided: nothing else may begin. */
  isAnswered = false;

  constructor({ deps, way, route, exchange, params, onOver }: Asked) {
    this.deps = deps;
    this.way = way;
    this.route = route;
    this.exchange = exchange;
    this.params = params;
    this.requestId = requestIdOf(exchange.headers);
    this.head = ['x-request-id', this.requestId, ...way.headOf(exchange)];
    const peek = route.hasTimeout ? () => peekTimeout(exchange.body) : null;
    this.deadline = new RequestDeadline((error) => onOver(this, error), peek).start();
  }

  get rawQuery(): string {
    const { url } = this.exchange;
    const at = url.indexOf('?');
    return at < 0 ? '' : url.slice(at + 1);
  }
}
