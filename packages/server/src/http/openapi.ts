// OpenAPI 3.1, generated from the schemas that judge the input, and a page to read it on.
import fastifySwagger from '@fastify/swagger';
import fastifySwaggerUi from '@fastify/swagger-ui';
import { ErrorBody } from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import { idempotencyHeader } from './idempotency.ts';

/** For reading only: the header is judged where it is used, so that requests without it pay nothing. */
const RepeatHeader = Type.Object({
  [idempotencyHeader]: Type.Optional(
    Type.String({
      pattern: '^[\\x21-\\x7e]{1,255}$',
      description:
        'The first answer to a key is kept for 24 hours and given again, with Idempotency-Replayed: true; the same key with another body is 409.',
    }),
  ),
});

const keyAlone = [{ bearer: [] }, { apiKey: [] }];

export async function registerOpenApi(app: FastifyInstance, version: string): Promise<void> {
  await app.register(fastifySwagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Rowhouse',
        version,
        description: 'Projects, each a real PostgreSQL database, behind a small REST API.',
      },
      tags: [
        { name: 'projects', description: 'Named databases with a size limit.' },
        { name: 'query', description: 'SQL over HTTP.' },
        { name: 'tables', description: 'Rows without SQL; filters as in PostgREST.' },
        { name: 'users', description: "End users of a project's application." },
        { name: 'keys', description: 'API keys of a project.' },
        { name: 'service', description: 'The service itself; no key needed.' },
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
              "Authorization: Bearer <ACCESS_TOKEN> of a user, beside the project's key as X-API-Key",
          },
        },
      },
      security: keyAlone,
    },
    transform: ({ schema, url, route }) => {
      const response = { ...(schema.response as object), default: { description: 'Failure', ...ErrorBody } };
      const headers = route.method === 'POST' && { headers: RepeatHeader };
      const { acceptsToken, needsToken } = route.config ?? {};
      const security = acceptsToken && {
        security: [...(needsToken ? [] : keyAlone), { apiKey: [], accessToken: [] }],
      };
      return { schema: { ...schema, ...headers, ...security, response }, url };
    },
  });
  await app.register(fastifySwaggerUi, {
    routePrefix: '/docs',
    staticCSP: true,
    // Over plain HTTP on a local network there is nothing to upgrade to.
    transformStaticCSP: (header) => header.replace('upgrade-insecure-requests', ''),
  });
  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger());
}
