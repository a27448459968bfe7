// OpenAPI 3.1, generated from what the routes declare and from the schemas that validate the input, and the page at /docs.
import fastifySwagger from '@fastify/swagger';
import fastifySwaggerUi from '@fastify/swagger-ui';
import type { ErrorCode } from '@rowhouse/api';
import type { FastifyInstance, RouteOptions } from 'fastify';
import Type from 'typebox';
import { completeDocument, type DeclaredFailures } from '../../openapi/document.ts';
import { idempotencyHeader } from '../request/repeats.ts';
import { minPositionHeader, stalenessHeader } from '../request/staleness.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Standbys can answer, or the response says from which position on they know the change. */
    readsStandbys?: boolean;
    /** How the route can fail, beside what every request with a key, a body or a project shares (openapi/failures.ts). */
    fails?: readonly ErrorCode[];
  }
}

/** Only documentation: the header is validated where it is used, so that requests without it cost nothing. */
const RepeatHeader = Type.Object({
  [idempotencyHeader]: Type.Optional(
    Type.String({
      pattern: '^[\\x21-\\x7e]{1,255}$',
      description:
        'Makes a request safe to repeat. The first response for a key is stored for 24 hours and returned again, with Idempotency-Replayed: true. The same key with a different body gets 409.',
    }),
  ),
});

const StandbyHeaders = Type.Object({
  [stalenessHeader]: Type.Optional(
    Type.String({
      pattern: '^[0-9]{1,6}(ms|s|m)$',
      description:
        'Allows an answer from a standby whose data is at most this old, such as 5s. For reads with a key for all tables. With a change, the response has a Rowhouse-Position.',
    }),
  ),
  [minPositionHeader]: Type.Optional(
    Type.String({
      description:
        'The Rowhouse-Position of an earlier response: an answer from a standby includes everything up to there.',
    }),
  ),
});

const keyAlone = [{ bearer: [] }, { apiKey: [] }];

/** Call it before the routes are registered. The service does not start with a route that is neither hidden nor declared. */
export async function registerOpenApi(app: FastifyInstance, version: string): Promise<void> {
  const routes: RouteOptions[] = [];
  app.addHook('onRoute', (route) => void routes.push(route));
  let declared: DeclaredFailures = new Map();
  app.addHook('onReady', async () => {
    declared = readDeclarations(routes);
  });
  await app.register(fastifySwagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Rowhouse',
        version,
        description: 'A database cloud: each project is a PostgreSQL database behind a REST API.',
        license: { name: 'Apache 2.0', identifier: 'Apache-2.0' },
      },
      // Where the document was read from.
      servers: [{ url: '/', description: 'This service.' }],
      tags: [
        { name: 'projects', description: 'Projects: databases with a size limit.' },
        { name: 'query', description: 'SQL over HTTP.' },
        { name: 'tables', description: 'Rows without SQL, with the filters of PostgREST.' },
        { name: 'users', description: "End users of a project's application." },
        { name: 'keys', description: 'API keys of a project.' },
        { name: 'branches', description: 'Copies of a project.' },
        { name: 'jobs', description: 'Work that goes on after its request was answered.' },
        { name: 'account', description: 'Your account: its keys, members and audit log.' },
        { name: 'accounts', description: 'All accounts, for the operator.' },
        { name: 'backups', description: 'Backups of the whole installation, for its operator.' },
        { name: 'servers', description: 'The PostgreSQL servers on which projects live, for the operator.' },
        { name: 'service', description: 'The service itself. No key required.' },
      ],
      components: {
        securitySchemes: {
          bearer: { type: 'http', scheme: 'bearer', description: 'Authorization: Bearer <API_KEY>' },
          apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
          connectionString: {
            type: 'apiKey',
            in: 'header',
            name: 'Neon-Connection-String',
            description: 'postgres://user:password@host/database, or an API key as the password',
          },
          accessToken: {
            type: 'http',
            scheme: 'bearer',
            bearerFormat: 'JWT',
            description:
              'Authorization: Bearer <ACCESS_TOKEN> of a user, together with a key of the project as X-API-Key',
          },
        },
      },
      security: keyAlone,
    },
    transform: ({ schema, url, route }) => {
      const { acceptsToken, needsToken, readsStandbys } = route.config ?? {};
      const headers = Type.Object({
        ...(route.method === 'POST' && RepeatHeader.properties),
        ...(readsStandbys && StandbyHeaders.properties),
      });
      const security = acceptsToken === true && {
        security: [...(needsToken ? [] : keyAlone), { apiKey: [], accessToken: [] }],
      };
      return { schema: { ...schema, headers, ...security }, url };
    },
    transformObject: (made) =>
      'openapiObject' in made ? completeDocument(made.openapiObject, declared) : made.swaggerObject,
  });
  await app.register(fastifySwaggerUi, {
    routePrefix: '/docs',
    staticCSP: true,
    // A service on a local network over plain HTTP has no HTTPS to upgrade to.
    transformStaticCSP: (header) => header.replace('upgrade-insecure-requests', ''),
  });
  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger());
}

/** Generated clients name a method after each operation, so that these names are stable. */
function readDeclarations(routes: readonly RouteOptions[]): DeclaredFailures {
  const declared = new Map<string, readonly ErrorCode[]>();
  for (const { method, url, schema, config } of routes) {
    if (schema?.hide || method === 'HEAD') continue;
    const { operationId, summary } = schema ?? {};
    if (!operationId || !summary) throw new Error(`The route ${method} ${url} declares no operation.`);
    if (declared.has(operationId)) throw new Error(`Two routes are declared as ${operationId}.`);
    declared.set(operationId, config?.fails ?? []);
  }
  return declared;
}
