// CORS: which pages of other origins may read responses. The endpoints for data and the framework use the same headers; the
// framework answers all preflights.
import type { FastifyInstance } from 'fastify';
import type { Head } from './http-exchange.ts';

export type CorsOrigins = '*' | readonly string[];

/** The headers of a response to a page of this origin. */
export type Cors = (origin: string | undefined) => Head;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** false: other origins may not read the response, whatever ROWHOUSE_CORS_ORIGINS says. */
    cors?: false;
  }
}

const exposed = [
  'access-control-expose-headers',
  'X-Request-Id, Retry-After, Idempotency-Replayed, X-Project-Size, X-Project-Limit, Rowhouse-Position',
] as const;
const methods = 'GET, HEAD, POST, PATCH, DELETE';
/** How long a browser remembers the answer to a preflight. */
const rememberedSeconds = '600';

export function openCors(origins: CorsOrigins): Cors {
  if (origins.length === 0) return () => [];
  if (origins === '*' || origins.includes('*')) {
    const everybody = ['access-control-allow-origin', '*', ...exposed];
    return () => everybody;
  }
  // A cache must not give one origin the response to another.
  const others = ['vary', 'Origin', ...exposed];
  return (origin) =>
    origin !== undefined && origins.includes(origin)
      ? [...others, 'access-control-allow-origin', origin]
      : others;
}

/** Call before the routes are registered. Browsers send preflights without keys: they are answered before anything asks for one. */
export function answerOtherOrigins(app: FastifyInstance, origins: CorsOrigins, cors: Cors): void {
  if (origins.length === 0) return;
  app.addHook('onRequest', (request, reply, done) => {
    if (request.routeOptions.config?.cors === false) return done();
    const head = cors(request.headers.origin);
    for (let at = 0; at < head.length; at += 2) reply.header(head[at] as string, head[at + 1]);
    if (request.method !== 'OPTIONS') return done();
    const wanted = request.headers['access-control-request-headers'];
    const vary = [reply.getHeader('vary'), 'Access-Control-Request-Headers'].filter(Boolean).join(', ');
    reply
      .code(204)
      .headers({
        vary,
        'access-control-allow-methods': methods,
        ...(wanted !== undefined && { 'access-control-allow-headers': wanted }),
        'access-control-max-age': rememberedSeconds,
        // Some browsers wait for a body otherwise.
        'content-length': '0',
      })
      .send();
  });
  // Without a route there is no hook.
  app.options('*', { schema: { hide: true } }, () => {});
}
