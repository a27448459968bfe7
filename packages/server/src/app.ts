// The whole HTTP surface. It does not read the environment or listen: main.ts and the tests do that.

import { apiPrefix, consolePrefix } from '@rowhouse/api';
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { errors } from './errors/errors.ts';
import { type ConsoleOptions, registerConsole } from './http/console/console.ts';
import { identifyBySession } from './http/console/identify.ts';
import { securityHeaders } from './http/console/security-headers.ts';
import { answerOtherOrigins, type CorsOrigins, openCors } from './http/cors.ts';
import type { DataRoute, Way } from './http/data/data-request.ts';
import { identifyByKey } from './http/data/identify.ts';
import { identifyByConnection } from './http/data/neon/connection-string.ts';
import { neonRoute } from './http/data/neon/neon.ts';
import { handOverData, openDataPipeline } from './http/data/pipeline.ts';
import { queryRoutes } from './http/data/query.ts';
import { tableRoutes } from './http/data/tables.ts';
import type { Deps } from './http/deps.ts';
import { openFastConnections } from './http/fast/fast-connections.ts';
import { createNodeServer, type TlsOptions } from './http/fast/node-server.ts';
import { NodeExchange } from './http/http-exchange.ts';
import { writeAuditEntries } from './http/request/audit-entries.ts';
import { authorizeByRole } from './http/request/authorize.ts';
import { identify } from './http/request/caller.ts';
import { openAddressOf } from './http/request/client-address.ts';
import { acceptIdempotencyKeys } from './http/request/idempotency.ts';
import { requireMetricsAccess } from './http/request/metrics-access.ts';
import { registerDeadlines } from './http/request/request-deadline.ts';
import { throttleSignIns } from './http/request/sign-in-throttle.ts';
import { takeJson } from './http/request/take-json.ts';
import { requestIdOf } from './http/request/trace.ts';
import { refuseUnknownParameters, validatorCompiler } from './http/request/validation.ts';
import { errorResponder, respondToBrokenRequest } from './http/response/error-response.ts';
import { type Finished, logRequest } from './http/response/request-log.ts';
import { accountRoutes } from './http/routes/accounts.ts';
import { auditLogRoutes } from './http/routes/audit-log.ts';
import { backupRoutes } from './http/routes/backups.ts';
import { branchRoutes } from './http/routes/branches.ts';
import { compactRoutes } from './http/routes/compaction.ts';
import { connectionRoute } from './http/routes/connection.ts';
import { actAsRoutes } from './http/routes/end-users/act-as.ts';
import { authRoutes } from './http/routes/end-users/auth.ts';
import { userSessionRoutes } from './http/routes/end-users/user-sessions.ts';
import { userRoutes } from './http/routes/end-users/users.ts';
import { exportRoutes } from './http/routes/export.ts';
import { importRoutes } from './http/routes/import.ts';
import { jobRoutes } from './http/routes/jobs.ts';
import { keyRoutes } from './http/routes/keys.ts';
import { logRoutes } from './http/routes/logs.ts';
import { mcpRoute } from './http/routes/mcp.ts';
import { memberRoutes } from './http/routes/members.ts';
import { moveRoutes } from './http/routes/moves.ts';
import { registerOpenApi } from './http/routes/openapi.ts';
import { ownAccountRoutes } from './http/routes/own-account.ts';
import { personRoutes } from './http/routes/people.ts';
import { projectRoutes } from './http/routes/projects.ts';
import { restoreRoute } from './http/routes/restore.ts';
import { savedQueryRoutes } from './http/routes/saved-queries.ts';
import { schemaRoutes } from './http/routes/schema.ts';
import { serverRoutes } from './http/routes/servers.ts';
import { metricsRoute, serviceRoutes } from './http/routes/service.ts';
import { snapshotRoutes } from './http/routes/snapshots.ts';
import { uploadRoutes } from './http/routes/uploads.ts';
import { usageRoutes } from './http/routes/usage.ts';
import type { Metrics } from './metrics/http-requests.ts';
import { arrivalMs, keepAliveMs, otherBodyBytes } from './settings/limits/requests.ts';

type Options = {
  corsOrigins: CorsOrigins;
  metrics: Metrics;
  metricsHere: boolean;
  /** Proxies whose X-Forwarded-For is trusted. */
  trustedProxies: readonly string[];
  tls?: TlsOptions;
  /** Gets a line for every request. */
  requestLog?: Logger | null;
  timeouts?: typeof arrivalMs;
  /** Until it returns true, the service is not ready, although it answers. */
  isAnnounced?: () => boolean;
  isDraining?: () => boolean;
  /** null: the service has no console. */
  console: ConsoleOptions | null;
};

export async function buildApp(
  deps: Deps,
  {
    corsOrigins,
    metrics,
    metricsHere,
    trustedProxies,
    tls = null,
    requestLog = null,
    timeouts = arrivalMs,
    isAnnounced = () => true,
    isDraining = () => false,
    ...options
  }: Options,
): Promise<FastifyInstance> {
  const logs = { log: deps.log, all: requestLog, addressOf: openAddressOf(trustedProxies) };
  const onFinished = (finished: Finished) => {
    logRequest(logs, finished);
    metrics.count(finished);
    deps.projectLog.note(finished);
  };
  const cors = openCors(corsOrigins);
  const data = openDataPipeline(deps, onFinished);
  const app = Fastify({
    bodyLimit: otherBodyBytes,
    // While stopping, requests that have arrived are still answered.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    requestIdHeader: false,
    trustProxy: trustedProxies.length > 0 ? [...trustedProxies] : false,
    serverFactory: (handler) => {
      const options = {
        headersTimeout: timeouts.headersMs,
        connectionsCheckingInterval: timeouts.checkMs,
        requestTimeout: timeouts.requestMs,
        keepAliveTimeout: keepAliveMs,
      };
      const framework = throttleSignIns(handler);
      const server = createNodeServer(options, tls, (request, response) => {
        // A server that is closing asks for no further request.
        if (!server.listening) response.setHeader('connection', 'close');
        if (!data.answer(new NodeExchange(request, response))) framework(request, response);
      });
      // No data flows on a connection while its statement runs, so that it may be idle for a little longer than that.
      server.setTimeout(Math.max(120_000, deps.limits.maxTimeoutMs + 10_000));
      const event = tls ? 'secureConnection' : 'connection';
      openFastConnections(server, { event, answerData: data.answer, checkMs: timeouts.checkMs });
      return server;
    },
    genReqId: (request) => requestIdOf(request.headers),
    routerOptions: { maxParamLength: 300 },
    frameworkErrors: (error, request, reply) => {
      if (isOfConsole(request.url)) reply.headers(securityHeaders);
      void respond(error, request, reply);
    },
    clientErrorHandler: respondToBrokenRequest,
  });
  const respond = errorResponder(deps.log);
  app.setErrorHandler(respond);
  app.setValidatorCompiler(validatorCompiler);
  // Response schemas are documentation only: the value of a domain function is sent unchanged.
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  app.removeAllContentTypeParsers();
  handOverData(app);
  takeJson(app);
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id);
    done();
  });
  registerDeadlines(app);
  app.addHook('onResponse', (request, reply, done) => {
    // Their pipeline has told of them.
    if (request.routeOptions.config.handOver) return done();
    onFinished({
      requestId: request.id,
      method: request.method,
      route: request.routeOptions.url ?? 'none',
      path: request.url,
      status: reply.statusCode,
      ms: reply.elapsedTime,
      keyId: (request.caller ?? request.operator)?.keyId,
      projectId: projectOf(deps, request),
      failure: request.failure,
      statement: request.deadline?.statement ?? null,
      raw: request.raw,
    });
    done();
  });
  answerOtherOrigins(app, corsOrigins, cors);
  await registerOpenApi(app, deps.version);
  const answerOtherMethods = watchRoutes(app);
  const byKey: Way = {
    prefix: apiPrefix,
    identify: identifyByKey,
    // With a list of origins, caches have to know that other pages get other headers.
    headOf: ({ headers: { origin } }) => (origin === undefined && corsOrigins === '*' ? [] : cors(origin)),
  };

  serviceRoutes(app, { ...deps, isAnnounced, isDraining });
  if (metricsHere) metricsRoute(app, metrics, requireMetricsAccess(deps.keyRing));
  app.decorateRequest('caller', null);
  app.decorateRequest('operator', null);
  app.decorateRequest('accessToken', null);
  app.decorateRequest('failure', null);
  await app.register(
    async (api) => {
      // Before the body is read, so that an unauthenticated client cannot make the service read one.
      api.addHook('onRequest', async (request) => {
        Object.assign(request, await identify(request, deps.keyRing));
      });
      await apiRoutes(api, deps, (routes) => data.declare(api, byKey, routes));
    },
    { prefix: apiPrefix },
  );
  if (options.console) {
    const bySession = sessionWay(options.console);
    await registerConsole(app, deps, options.console, (api) =>
      apiRoutes(api, deps, (routes) => data.declare(api, bySession, routes)),
    );
  }
  await app.register(async (scope) => {
    refuseUnknownParameters(scope);
    data.declare(scope, { ...byKey, prefix: '', identify: identifyByConnection }, [neonRoute]);
  });
  await app.register(async (scope) => {
    mcpRoute(scope, deps, { origins: corsOrigins, hosts: options.console?.hosts ?? [] });
  });
  answerOtherMethods();
  app.setNotFoundHandler((request) => {
    throw errors.routeNotFound(request.method, request.url.split('?')[0] ?? '');
  });
  return app;
}

/** The page reaches data with its session. Other origins may not read the responses. */
function sessionWay({ hosts }: ConsoleOptions): Way {
  const head = Object.entries(securityHeaders).flat();
  return { prefix: consolePrefix + apiPrefix, identify: identifyBySession(hosts), headOf: () => head };
}

/** The project that a request was about, if it is known without a look-up. */
function projectOf(deps: Deps, { caller, params }: FastifyRequest): string | undefined {
  const slug = (params as { slug?: unknown } | undefined)?.slug;
  return caller && typeof slug === 'string' ? deps.logins.recall(caller, slug)?.id : undefined;
}

/** The routes of the API. A hook before them identifies the caller. */
async function apiRoutes(
  api: FastifyInstance,
  deps: Deps,
  dataRoutes: (routes: readonly DataRoute[]) => void,
): Promise<void> {
  authorizeByRole(api, deps.rates);
  writeAuditEntries(api, deps);
  refuseUnknownParameters(api);
  acceptIdempotencyKeys(api, deps.idempotency);
  accountRoutes(api, deps);
  ownAccountRoutes(api, deps);
  memberRoutes(api, deps);
  personRoutes(api, deps);
  auditLogRoutes(api, deps);
  projectRoutes(api, deps);
  restoreRoute(api, deps);
  connectionRoute(api, deps);
  usageRoutes(api, deps);
  logRoutes(api, deps);
  compactRoutes(api, deps);
  exportRoutes(api, deps);
  await api.register(async (scope) => importRoutes(scope, deps));
  await api.register(async (scope) => uploadRoutes(scope, deps));
  branchRoutes(api, deps);
  moveRoutes(api, deps);
  jobRoutes(api, deps);
  backupRoutes(api, deps);
  serverRoutes(api, deps);
  snapshotRoutes(api, deps);
  keyRoutes(api, deps);
  dataRoutes(queryRoutes);
  savedQueryRoutes(api, deps);
  dataRoutes(tableRoutes);
  schemaRoutes(api, deps);
  authRoutes(api, deps);
  userRoutes(api, deps);
  userSessionRoutes(api, deps);
  actAsRoutes(api, deps);
}

/** The metrics on a separate port, which callers cannot reach. */
export function buildMetricsApp(metrics: Pick<Metrics, 'text' | 'contentType'>): FastifyInstance {
  const app = Fastify({
    serverFactory: (handler) => createNodeServer({}, null, handler),
    clientErrorHandler: respondToBrokenRequest,
  });
  metricsRoute(app, metrics);
  return app;
}

/**
 * Answers 405 instead of 404 for a known path with another method. Call it before the routes are registered, and the
 * function that it returns afterwards.
 */
function watchRoutes(app: FastifyInstance): () => void {
  const routes = new Map<string, Set<string>>();
  app.addHook('onRoute', ({ url, method }) => {
    const methods = routes.get(url) ?? new Set();
    for (const name of [method].flat()) methods.add(name);
    routes.set(url, methods);
  });
  return () => {
    for (const [url, methods] of [...routes]) {
      const allowed = [...methods].sort();
      const method = app.supportedMethods.filter(
        (name) => !methods.has(name) && !['OPTIONS', 'CONNECT'].includes(name),
      );
      if (method.length === 0) continue;
      const isConsole = isOfConsole(url);
      app.route({
        url,
        method,
        config: isConsole ? { cors: false } : {},
        schema: { hide: true },
        onRequest: async (request, reply) => {
          if (isConsole) reply.headers(securityHeaders);
          throw errors.methodNotAllowed(request.method, allowed);
        },
        handler: () => {},
      });
    }
  };
}

function isOfConsole(url: string): boolean {
  return url === consolePrefix || url.startsWith(`${consolePrefix}/`);
}
