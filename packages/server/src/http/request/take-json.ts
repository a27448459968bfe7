// JSON bodies of the framework's routes.
import type { ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { onResponseEnd } from '../response-end.ts';
import { BodyMemory, readBody } from './body-memory.ts';
import { checkEncoding, type Numbers, parseBody } from './json-body.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Not in a WeakMap: V8 would keep the request, with its body, until a full garbage collection. null: it is not counted. */
    bodyMemory: BodyMemory | null;
  }
  interface FastifyContextConfig {
    numbers?: Numbers;
  }
}

/** Only the response shows when a request is over, and content type parsers do not get it. */
const responses = new WeakMap<FastifyRequest, ServerResponse>();

/** Call before the routes are registered. */
export function takeJson(app: FastifyInstance): void {
  app.decorateRequest('bodyMemory', null);
  app.addHook('preParsing', (request, reply, payload, done) => {
    responses.set(request, reply.raw);
    done(null, payload);
  });
  app.addContentTypeParser('application/json', (request, payload, done) => {
    readJson(request, payload).then((body) => done(null, body), done);
  });
  app.addHook('onRoute', (route) => {
    const { handler } = route;
    route.handler = function (request, reply) {
      const handle = () => handler.call(this, request, reply);
      return request.bodyMemory?.countDuring(handle) ?? handle();
    };
  });
}

async function readJson(request: FastifyRequest, payload: Readable): Promise<unknown> {
  const { headers, caller, routeOptions } = request;
  checkEncoding(headers);
  const memory = new BodyMemory(caller?.accountId ?? '', (over) => {
    const response = responses.get(request);
    if (!response) return;
    request.bodyMemory = memory;
    onResponseEnd(response, over);
  });
  const bytes = await readBody(payload, { headers, maxBytes: routeOptions.bodyLimit, memory });
  return parseBody(bytes, memory, routeOptions.config.numbers);
}
