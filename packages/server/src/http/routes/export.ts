// A project as a file over HTTP: streamed at the caller's pace, and broken off if it cannot be finished, so that half a
// dump never looks like a whole one.
import { type ExportFormat, ExportProject } from '@rowhouse/api';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { requireEverything } from '../../keys/caller.ts';
import { getOpenProjectRow } from '../../projects/find.ts';
import type { Write } from '../../transfer/export/export.ts';
import type { Deps } from '../deps.ts';
import { noteStream } from '../request/audit-entries.ts';
import { callerOf } from '../request/caller.ts';
import { onResponseEnd } from '../response-end.ts';
import { SlugParams } from './projects.ts';

type Params = { slug: string };

/** Until the first byte: pg_dump reads the whole catalog before. */
const beginWithinMs = 110_000;

const files: Record<ExportFormat, { type: string; ending: string }> = {
  custom: { type: 'application/octet-stream', ending: 'dump' },
  sql: { type: 'application/octet-stream', ending: 'sql' },
  csv: { type: 'application/zip', ending: 'zip' },
};
const Bytes = { schema: { type: 'string', format: 'binary' } };

export function exportRoutes(app: FastifyInstance, deps: Deps): void {
  app.get<{ Params: Params; Querystring: ExportProject }>(
    '/projects/:slug/export',
    {
      config: {
        action: 'projects.manage',
        audit: { action: 'project.export' },
        answerWithinMs: beginWithinMs,
        fails: ['conflict', 'sql_error', 'server_full'],
      },
      // It would make the whole export and throw it away.
      exposeHeadRoute: false,
      schema: {
        operationId: 'exportProject',
        tags: ['projects'],
        summary: 'Export a project',
        description:
          "Everything the project stores as of one moment, users and their password hashes included. Needs the project's own key, an account key, or a key with the scope manage and all tables. One export of a project runs at a time. While the project is moved to another server, only csv is exported; the other formats get 409. An export that fails on its way ends by a closed connection, never like a whole one.",
        params: SlugParams,
        querystring: ExportProject,
        response: {
          200: {
            description: 'The file.',
            content: { 'application/octet-stream': Bytes, 'application/zip': Bytes },
          },
        },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request);
      const project = await getOpenProjectRow(deps.control, caller, request.params.slug);
      requireEverything(caller, 'export a project');
      const { format = 'custom' } = request.query;
      // Before the first byte leaves: a stream passes by the hook that writes the other entries. One that fails before gets two.
      await noteStream(deps, request, reply);
      const { write, closed, hasBegun } = streamOf(reply, format, project.slug);
      try {
        await deps.exports.run(project, format, write, closed);
        reply.raw.end();
      } catch (error) {
        if (!hasBegun()) throw error;
        if (!closed.aborted) deps.log.warn({ request_id: request.id, err: error }, 'an export broke off');
        reply.raw.destroy();
      }
      return reply;
    },
  );
}

/** Nothing of the response begins before the first piece, so that what fails before is an ordinary error. */
function streamOf(reply: FastifyReply, format: ExportFormat, slug: string) {
  const { raw, request } = reply;
  const closed = new AbortController();
  const close = () => closed.abort(new Error('The caller closed the connection.'));
  onResponseEnd(raw, close);
  let begun = false;
  const begin = () => {
    if (request.deadline.isOver) throw new Error('The caller was told that it took too long.');
    begun = true;
    request.deadline.end();
    const { type, ending } = files[format];
    reply.headers({
      'content-type': type,
      'content-disposition': `attachment; filename="${slug}.${ending}"`,
      'cache-control': 'no-store',
    });
    reply.hijack();
    raw.writeHead(200, reply.getHeaders() as Record<string, string>);
  };
  const write: Write = (piece) => {
    if (!begun) begin();
    return new Promise((resolve) => {
      raw.write(piece, () => resolve());
    });
  };
  return { write, closed: closed.signal, hasBegun: () => begun };
}
