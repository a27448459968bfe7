// The one way of a request for data (SQL, batches, rows of tables), whatever its headers ask for and whichever server read it:
// a list of steps, of which each costs nothing when its header is absent. The framework knows these routes for the OpenAPI
// document, for other methods, and for requests that come without a connection; it hands them over.
import type { FastifyInstance } from 'fastify';
import type { Answer } from '../../jobs/idempotency.ts';
import type { Deps } from '../deps.ts';
import { type HttpExchange, NodeExchange } from '../http-exchange.ts';
import { pathOf, type Repeat, repeatUserOf } from '../request/repeats.ts';
import { readAccept } from '../request/row-format.ts';
import { allowStaleness } from '../request/staleness.ts';
import { checkSession } from './acting-user.ts';
import {
  DataRequest,
  type DataRoute,
  type Params,
  type RunningRequest,
  type Step,
  type Way,
} from './data-request.ts';
import { admitUser, authorize, callerOf, findProject } from './identify.ts';
import { receiveBody, validate } from './receive-body.ts';
import { fail, type OnFinished, openReader, send, succeed } from './respond.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route is one of the pipeline's. */
    handOver?: (exchange: HttpExchange, params: Params) => void;
  }
}

/** Answers a request for data and returns true, or leaves it untouched and returns false. */
export type AnswerData = (exchange: HttpExchange) => boolean;

export type DataPipeline = {
  answer: AnswerData;
  /** Takes requests to these routes behind the prefix of the way, and tells the framework of them. */
  declare(app: FastifyInstance, way: Way, routes: readonly DataRoute[]): void;
};

type Served = Readonly<{ pattern: RegExp; serve: (exchange: HttpExchange, params: Params) => void }>;

export function openDataPipeline(deps: Deps, onFinished: OnFinished): DataPipeline {
  const byMethod = new Map<string, Served[]>();

  const open = (way: Way, route: DataRoute) => {
    const steps: Step[] = [
      way.identify,
      authorize,
      admitUser,
      ...(route.admit ? [route.admit] : []),
      receiveBody,
      validate,
      (request) => (request.repeat ? beginRepeat(request, request.repeat, onFinished) : undefined),
      findProject,
      (request) => run(request, onFinished),
    ];
    const onError = (request: DataRequest, error: unknown) => fail(request, error as Error, onFinished);
    return (exchange: HttpExchange, params: Params) =>
      advance(new DataRequest({ deps, way, route, exchange, params, onOver: onError }), steps, 0, onError);
  };

  return {
    answer: (exchange) => {
      const { method, url } = exchange;
      const served = byMethod.get(method);
      if (!served) return false;
      const path = pathOf(url);
      for (const { pattern, serve } of served) {
        const found = pattern.exec(path);
        if (!found) continue;
        const [, slug = '', table = ''] = found;
        serve(exchange, { slug, table });
        return true;
      }
      return false;
    },
    declare: (app, way, routes) => {
      for (const route of routes) {
        const serve = open(way, route);
        const served = byMethod.get(route.method) ?? [];
        byMethod.set(route.method, [...served, { pattern: patternOf(way.prefix + route.path), serve }]);
        tellFramework(app, route, serve);
      }
    },
  };
}

/** Runs the steps up to the first one that has to wait, and goes on when it has. */
function advance(
  request: DataRequest,
  steps: readonly Step[],
  from: number,
  onError: (request: DataRequest, error: unknown) => void,
): void {
  try {
    for (let at = from; at < steps.length && !request.isAnswered; at++) {
      const waiting = (steps[at] as Step)(request);
      if (!waiting) continue;
      waiting.then(
        () => advance(request, steps, at + 1, onError),
        (error) => onError(request, error),
      );
      return;
    }
  } catch (error) {
    onError(request, error);
  }
}

async function beginRepeat(request: DataRequest, repeat: Repeat, onFinished: OnFinished): Promise<void> {
  const { deps, exchange, login, accessToken, deadline } = request;
  const { method, url } = exchange;
  const who = {
    caller: callerOf(request),
    user: repeatUserOf(login, accessToken),
    method,
    path: pathOf(url),
  };
  const answer = await repeat.begin(deps.idempotency, who, deadline);
  if (!answer || request.isAnswered) return;
  await checkSession(deps, login);
  if (!request.isAnswered) replay(request, answer, onFinished);
}

function replay(request: DataRequest, { status, contentType, body }: Answer, onFinished: OnFinished): void {
  request.head.push('idempotency-replayed', 'true');
  send(request, { status, body, contentType }, onFinished);
}

function run(request: DataRequest, onFinished: OnFinished): Promise<void> {
  const { route, exchange, memory } = request;
  const { headers } = exchange;
  const running = request as RunningRequest;
  if (route.readsStandbys) running.login = allowStaleness(headers, running.caller, running.login);
  if (route.givesRows) request.accepted = readAccept(headers.accept);
  request.reader = openReader(request);
  const answering = memory ? memory.countDuring(() => route.run(running)) : route.run(running);
  return answering.then((answer) => succeed(running, answer, onFinished));
}

/** The framework reads paths in another spelling, and knows what is too long. */
function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replace(/[.]/g, '\\$&').replace(/:\w+/g, '([^/%#]{1,300})')}$`);
}

function tellFramework(
  app: FastifyInstance,
  { method, path, action, acceptsToken, readsStandbys, fails, bodyLimit, schema, input }: DataRoute,
  handOver: Served['serve'],
): void {
  app.route({
    method,
    url: path,
    bodyLimit,
    config: {
      ...(action && { action }),
      ...(acceptsToken && { acceptsToken }),
      ...(readsStandbys && { readsStandbys }),
      audit: null,
      fails,
      handOver,
    },
    schema: { ...schema, ...(input && { body: input }) },
    validatorCompiler: () => () => true,
    handler: () => {
      throw new Error('A request for data did not leave the framework.');
    },
  });
}

/** Call before all other hooks of the framework: none of them is for these requests. */
export function handOverData(app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, done) => {
    const { handOver } = request.routeOptions.config;
    if (!handOver) return done();
    reply.hijack();
    handOver(new NodeExchange(request.raw, reply.raw), request.params as Params);
  });
}
