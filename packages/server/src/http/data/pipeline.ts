// The one way of a request for data (SQL, batches, rows of tables), whatever its headers ask for and whichever server read it:
// a list of steps, of which each costs nothing when its header is absent. The framework knows these routes for the OpenAPI
// document, for other methods, and for requests that come without a connection; it hands them over.
import type { FastifyInstance } from 'fastify';
import type { Deps } from '../deps.ts';
import { type HttpExchange, NodeExchange } from '../http-exchange.ts';
import { pathOf, repeatUserOf } from '../request/repeats.ts';
import { readAccept } from '../request/row-format.ts';
import { allowStaleness } from '../request/staleness.ts';
import { checkSession } from './acting-user.ts';
import {
  DataRequest,
  type DataRoute,
  type Endpoint,
  type Params,
  type RunningRequest,
  type Step,
  type Way,
} from './data-request.ts';
import { admitUser, authorize, callerOf, findProject } from './identify.ts';
import { receiveBody, validate } from './receive-body.ts';
import { fail, send, succeed } from './respond.ts';

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

export function openDataPipeline(deps: Deps, onFinished: Endpoint['onFinished']): DataPipeline {
  const byMethod = new Map<string, Served[]>();
  return {
    answer: (exchange) => {
      const path = pathOf(exchange.url);
      for (const { pattern, serve } of byMethod.get(exchange.method) ?? []) {
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
        const endpoint = { deps, way, route, onFinished, onError: fail };
        const steps = stepsOf(way, route);
        const serve: Served['serve'] = (exchange, params) =>
          advance(new DataRequest(endpoint, exchange, params), steps);
        const served = { pattern: patternOf(way.prefix + route.path), serve };
        byMethod.set(route.method, [...(byMethod.get(route.method) ?? []), served]);
        tellFramework(app, route, serve);
      }
    },
  };
}

function stepsOf({ identify }: Way, { admit }: DataRoute): Step[] {
  const atTable = admit ? [admit] : [];
  return [identify, authorize, admitUser, ...atTable, receiveBody, validate, beginRepeat, findProject, run];
}

/** Runs the steps up to the first one that has to wait, and goes on when it has. */
function advance(request: DataRequest, steps: readonly Step[], from = 0): void {
  try {
    for (let at = from; at < steps.length && !request.isAnswered; at++) {
      const waiting = (steps[at] as Step)(request);
      if (!waiting) continue;
      waiting.then(
        () => advance(request, steps, at + 1),
        (error) => fail(request, error),
      );
      return;
    }
  } catch (error) {
    fail(request, error as Error);
  }
}

const beginRepeat: Step = (request) => {
  const { deps, exchange, login, accessToken, deadline, repeat } = request;
  if (!repeat) return;
  const { method, url } = exchange;
  const user = repeatUserOf(login, accessToken);
  const who = { caller: callerOf(request), user, method, path: pathOf(url) };
  return repeat.begin(deps.idempotency, who, deadline).then(async (answer) => {
    if (answer && !request.isAnswered) await checkSession(deps, login);
    if (!answer || request.isAnswered) return;
    request.head.push('idempotency-replayed', 'true');
    send(request, answer);
  });
};

const run: Step = (request) => {
  const { route, exchange, memory } = request;
  const { headers } = exchange;
  const running = request as RunningRequest;
  if (route.readsStandbys) running.login = allowStaleness(headers, running.caller, running.login);
  if (route.givesRows) request.accepted = readAccept(headers.accept);
  const answering = memory ? memory.countDuring(() => route.run(running)) : route.run(running);
  return answering.then((answer) => succeed(running, answer));
};

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
