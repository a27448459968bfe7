// The console's part of the HTTP surface: its pages, its sessions, and the routes of the API a second time, for sessions
// instead of keys.
import { apiPrefix, consolePrefix } from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import { errors } from '../../errors/errors.ts';
import type { Deps } from '../deps.ts';
import { refuseUnknownParameters } from '../request/validation.ts';
import { findConsole, readConsole } from './files.ts';
import {
  acceptOnlyConsole,
  decorateForConsole,
  identifySession,
  requireConfirmation,
  requireUsable,
  sessionOf,
} from './identify.ts';
import { consolePages, homeRoute } from './pages.ts';
import { passkeyRoutes } from './passkeys.ts';
import { peopleRoutes } from './people.ts';
import { providerRoutes } from './provider.ts';
import { securityHeaders } from './security-headers.ts';
import { sessionRoutes } from './sessions.ts';

export type ConsoleOptions = Readonly<{
  /** In addition to those of this machine. */
  hosts: readonly string[];
  /** The folder with the built files; null: none. Without it, the usual places are searched. */
  folder?: string | null;
}>;

/** `registerApi`: registers the routes of the API in the scope that it is given. */
export async function registerConsole(
  app: FastifyInstance,
  deps: Deps,
  { hosts, folder = findConsole() }: ConsoleOptions,
  registerApi: (scope: FastifyInstance) => Promise<void>,
): Promise<void> {
  decorateForConsole(app);
  homeRoute(app);
  await app.register(async (scope) =>
    consolePages(scope, { hosts, files: folder === null ? null : readConsole(folder) }),
  );
  await app.register(
    async (scope) => {
      acceptOnlyConsole(scope, hosts);
      refuseUnknownParameters(scope);
      sessionRoutes(scope, deps);
      peopleRoutes(scope, deps);
      passkeyRoutes(scope, deps);
      providerRoutes(scope, deps);
    },
    { prefix: consolePrefix },
  );
  await app.register(
    async (scope) => {
      acceptOnlyConsole(scope, hosts);
      scope.addHook('onRequest', async (request) => {
        await identifySession(request, deps);
        requireUsable(sessionOf(request));
      });
      scope.addHook('preHandler', requireConfirmation(deps));
      await registerApi(scope);
    },
    { prefix: consolePrefix + apiPrefix },
  );
  noOther(app);
}

/** Without these, an unknown endpoint would get the page, and a preflight the API's answer to other origins. */
function noOther(app: FastifyInstance): void {
  const options = {
    config: { cors: false },
    schema: { hide: true },
    handler: () => {},
    onRequest: async (
      request: { method: string; url: string },
      reply: { headers(values: object): unknown },
    ) => {
      reply.headers(securityHeaders);
      throw errors.routeNotFound(request.method, request.url.split('?')[0] ?? '');
    },
  } as const;
  app.route({ ...options, url: `${consolePrefix}/api/*`, method: app.supportedMethods });
  app.route({ ...options, url: `${consolePrefix}/*`, method: 'OPTIONS' });
}
