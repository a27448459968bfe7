// Imports over HTTP: a dump as the body, streamed to disk, or the address of a server.
import { ImportFrom, ImportQuery, ImportResponse } from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import type { Started } from '../dumps/import/import.ts';
import { errors } from '../errors.ts';
import { requireAccount } from '../keys/caller.ts';
import { callerOf } from './caller.ts';
import type { Deps } from './deps.ts';
import { checkEncoding } from './json-body.ts';

const dumpTypes = ['application/octet-stream', 'application/sql'];
const Bytes = { schema: { type: 'string', format: 'binary' } };

/** In a scope of its own: no other endpoint takes these types. */
export function importRoutes(app: FastifyInstance, deps: Deps): void {
  for (const type of dumpTypes)
    app.addContentTypeParser(type, (request, payload, done) => {
      try {
        checkEncoding(request.headers);
        done(null, payload);
      } catch (error) {
        done(error as Error);
      }
    });

  app.post<{ Querystring: ImportQuery; Body: unknown }>(
    '/projects/import',
    {
      onRequest: async (request) => {
        requireAccount(callerOf(request), 'create projects');
      },
      validatorCompiler: ({ schema, httpPart, ...rest }) => {
        const compile = app.validatorCompiler;
        // Bytes are judged by their reader.
        if (!compile || schema === Bytes.schema) return () => true;
        return compile({ schema, ...(httpPart && { httpPart }), ...rest });
      },
      schema: {
        tags: ['projects'],
        summary: 'Import a project',
        description:
          'Requires an account key. Creates a project from a dump of pg_dump (custom or plain), or from a PostgreSQL server. The response comes when the dump has arrived, and contains the project key, which is shown only once. A job then fills the project: its result lists what could not be taken over. If the job fails, the project is gone.',
        querystring: ImportQuery,
        body: {
          content: {
            'application/json': { schema: ImportFrom },
            ...Object.fromEntries(dumpTypes.map((type) => [type, Bytes])),
          },
        },
        response: { 202: ImportResponse },
      },
    },
    async (request, reply): Promise<ImportResponse> => {
      const { accountId } = requireAccount(callerOf(request), 'create projects');
      const { query, body, deadline } = request;
      let started: Started;
      if (isStream(body)) {
        const { name } = query;
        if (name === undefined)
          throw errors.invalidRequest([{ path: 'name', problem: 'is required in the query string' }]);
        // A response that comes before the end of the body must not wait for it.
        reply.raw.once('finish', () => {
          request.raw.removeAllListeners('readable');
          setImmediate(() => request.raw.resume());
        });
        // The upload takes as long as it takes: the server's own limits for slow requests hold.
        deadline.pause();
        started = await deps.imports
          .fromUpload(accountId, { ...query, name }, body)
          .finally(() => deadline.resume());
      } else {
        if (Object.keys(query).length > 0)
          throw errors.invalidRequest([
            { path: '', problem: 'with "from", all parameters belong in the body' },
          ]);
        const { from, ...input } = body as ImportFrom;
        started = await deps.imports.fromServer(accountId, input, from);
      }
      const { project, apiKey, job } = started;
      reply.status(202).header('location', `${app.prefix}/jobs/${job.id}`);
      return { ok: true, project, api_key: apiKey, job };
    },
  );
}

function isStream(body: unknown): body is AsyncIterable<Buffer> {
  return typeof body === 'object' && body !== null && Symbol.asyncIterator in body;
}
