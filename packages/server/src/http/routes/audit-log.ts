// The audit log over HTTP: as pages, and as JSON lines.
import { Readable } from 'node:stream';
import { AuditResponse, ListAudit } from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { listAudit } from '../../control/audit-log.ts';
import { requireAccount } from '../../keys/caller.ts';
import type { Deps } from '../deps.ts';
import { callerOf } from '../request/caller.ts';
import { readAccept } from '../request/row-format.ts';

const linesPage = 1_000;

export function auditLogRoutes(app: FastifyInstance, { control }: Deps): void {
  app.get<{ Querystring: ListAudit }>(
    '/audit',
    {
      config: { action: 'audit.read' },
      schema: {
        operationId: 'readAuditLog',
        tags: ['account'],
        summary: 'Read the audit log',
        description:
          'Requires the role admin, or an operator key, which sees all accounts. Newest first. With `Accept: application/x-ndjson`, all entries that match, one JSON object per line.',
        querystring: ListAudit,
        response: { 200: AuditResponse },
      },
    },
    async (request, reply) => {
      const accountId = accountOf(request);
      if (readAccept(request.headers.accept)?.format !== 'json-lines') {
        const page = await listAudit(control, accountId, request.query);
        return { ok: true, ...page };
      }
      // The first page before the headers: an error has a status then.
      const first = await listAudit(control, accountId, { ...request.query, limit: linesPage });
      const lines = async function* () {
        for (let page = first; ; ) {
          yield page.entries.map((entry) => `${JSON.stringify(entry)}\n`).join('');
          if (page.cursor === null) return;
          page = await listAudit(control, accountId, {
            ...request.query,
            limit: linesPage,
            cursor: page.cursor,
          });
        }
      };
      reply.type('application/x-ndjson; charset=utf-8');
      return reply.send(Readable.from(lines()));
    },
  );
}

/** undefined: all. An account sees its own entries, whatever it asks for. */
function accountOf(request: FastifyRequest<{ Querystring: ListAudit }>): string | undefined {
  const { account } = request.query;
  if (request.operator) return account;
  return requireAccount(callerOf(request), 'read the audit log').accountId;
}
