// Imports over HTTP: a dump as the body, streamed to disk; a dump that was uploaded before; or the address of a server.
import { ImportFrom, ImportQuery, ImportResponse } from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import { errors } from '../../errors/errors.ts';
import { type AccountCaller, requireAllProjects } from '../../keys/caller.ts';
import { placementFailures } from '../../openapi/failure-sets.ts';
import type { Started } from '../../transfer/import/import.ts';
import type { Deps } from '../deps.ts';
import { createdProject } from '../request/audit-entries.ts';
import { callerOf } from '../request/caller.ts';
import { dumpContent, exceptDumps, isStream, takeDumps } from '../request/dump-body.ts';
import { readUpload } from '../request/upload-time.ts';

/** In a scope of its own: no other endpoint takes these types. */
export function importRoutes(app: FastifyInstance, deps: Deps): void {
  takeDumps(app);

  app.post<{ Querystring: ImportQuery; Body: unknown }>(
    '/projects/import',
    {
      config: {
        action: 'projects.manage',
        audit: {
          action: 'project.import',
          fields: ['name', 'slug', 'limit_mb'],
          made: createdProject,
        },
        fails: [...placementFailures, 'upload_not_found', 'invalid_dump', 'import_source_failed'],
      },
      onRequest: async (request) => {
        requireAllProjects(callerOf(request), 'create projects');
      },
      validatorCompiler: exceptDumps(app),
      schema: {
        operationId: 'importProject',
        tags: ['projects'],
        summary: 'Import a project',
        description:
          'Requires an account key. Creates a project from a dump of pg_dump (custom or plain), or from a PostgreSQL server. The response comes when the dump has arrived, and contains the project key, which is shown only once. A job then fills the project: its result lists what could not be taken over. If the job fails, the project is gone.',
        querystring: ImportQuery,
        body: { content: { 'application/json': { schema: ImportFrom }, ...dumpContent } },
        response: { 202: ImportResponse },
      },
    },
    async (request, reply): Promise<ImportResponse> => {
      const caller = requireAllProjects(callerOf(request), 'create projects');
      const { query, body } = request;
      let started: Started;
      if (isStream(body)) {
        const { name } = query;
        if (name === undefined)
          throw errors.invalidRequest([{ path: 'name', problem: 'is required in the query string' }]);
        started = await readUpload(request, reply, () =>
          deps.imports.fromUpload(caller, { ...query, name }, body),
        );
      } else {
        if (Object.keys(query).length > 0)
          throw errors.invalidRequest([
            { path: '', problem: 'with "from" or "upload", all parameters belong in the body' },
          ]);
        started = await fromJson(deps, caller, body as ImportFrom);
      }
      const { project, apiKey, job } = started;
      reply.status(202).header('location', `${app.prefix}/jobs/${job.id}`);
      return { ok: true, project, api_key: apiKey, job };
    },
  );
}

function fromJson({ imports }: Deps, caller: AccountCaller, body: ImportFrom): Promise<Started> {
  const { from, upload, ...input } = body;
  if (from !== undefined && upload === undefined) return imports.fromServer(caller, input, from);
  if (upload && from === undefined) return imports.fromStored(caller, input, upload.id, upload.bytes);
  throw errors.invalidRequest([{ path: '', problem: 'must have either "from" or "upload"' }]);
}
