// Servers over HTTP, for the operator.
import {
  AddServer,
  ChangeServer,
  DrainResponse,
  DrainServer,
  RemovedServerResponse,
  ServerResponse,
  ServersResponse,
} from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { removeSlot, slotName } from '../../backups/wal/slot.ts';
import { errors } from '../../errors/errors.ts';
import { startDrain } from '../../moves/drain.ts';
import { addServer, changeServer, listServers, removeServer } from '../../servers/manage.ts';
import type { Server } from '../../servers/server.ts';
import type { Deps } from '../deps.ts';
import { accountOf, operatorOf } from '../request/authorize.ts';

const isId = /^[1-9][0-9]{0,8}$/;
const Params = Type.Object({
  id: Type.String({ pattern: isId.source, description: "The server's id." }),
});
type Params = { id: string };
const Removal = Type.Object(
  {
    lost: Type.Optional(
      Type.Enum(['true', 'false'], {
        description: 'true: the server does not answer, and never will. All its projects are given up.',
      }),
    ),
  },
  { additionalProperties: false },
);
type Removal = Type.Static<typeof Removal>;
const description = 'Requires an operator key.';
/** Its template is created meanwhile. */
const addWithinMs = 60_000;

export function serverRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['servers'];
  const onError = (error: unknown) =>
    deps.log.warn({ err: error }, 'spares or the replication slot of a server were not dropped');
  const slot = slotName(deps.servers.first.installation);
  const dropSlot = ({ maintenance }: Server) => removeSlot(maintenance, slot);
  const manage = (request: FastifyRequest) => {
    operatorOf(request);
    return { ...deps, onError, slot, dropSlot };
  };

  /** Path parameters are not validated: what cannot be an id is not found. */
  const idOf = ({ params: { id } }: { params: Params }): number => {
    if (!isId.test(id)) throw errors.serverNotFound(id);
    return Number(id);
  };

  app.get(
    '/servers',
    {
      config: { action: 'service.operate' },
      schema: {
        operationId: 'listServers',
        tags,
        summary: 'List servers',
        description,
        response: { 200: ServersResponse },
      },
    },
    async (request): Promise<ServersResponse> => ({
      ok: true,
      servers: await listServers(manage(request), deps.disk),
    }),
  );

  app.post<{ Body: AddServer }>(
    '/servers',
    {
      config: {
        action: 'service.operate',
        audit: { action: 'server.add', fields: ['name'], made: ({ server }) => ({ target: server?.id }) },
        answerWithinMs: addWithinMs,
        fails: ['conflict'],
      },
      schema: {
        operationId: 'addServer',
        tags,
        summary: 'Add a server',
        description: `${description} New projects can be placed on it from then on. It is backed up if ROWHOUSE_BACKUP_URL is set and its role may replicate.`,
        body: AddServer,
        response: { 201: ServerResponse },
      },
    },
    async (request, reply): Promise<ServerResponse> => {
      const given = manage(request);
      const server = await addServer(given, request.body);
      reply.status(201).header('location', `${app.prefix}/servers/${server.id}`);
      return { ok: true, server };
    },
  );

  app.patch<{ Params: Params; Body: ChangeServer }>(
    '/servers/:id',
    {
      config: {
        action: 'service.operate',
        audit: { action: 'server.change' },
        fails: ['server_not_found', 'conflict'],
      },
      schema: {
        operationId: 'changeServer',
        tags,
        summary: 'Change the labels, the capacity or the state of a server',
        description,
        params: Params,
        body: ChangeServer,
        response: { 200: ServerResponse },
      },
    },
    async (request): Promise<ServerResponse> => ({
      ok: true,
      server: await changeServer(manage(request), idOf(request), request.body),
    }),
  );

  app.post<{ Params: Params; Body: DrainServer }>(
    '/servers/:id/drain',
    {
      config: {
        action: 'service.operate',
        audit: { action: 'server.drain', fields: ['move'] },
        fails: ['server_not_found', 'conflict', 'server_full'],
      },
      schema: {
        operationId: 'drainServer',
        tags,
        summary: 'Drain a server',
        description: `${description} It takes no new projects. With "move", a job moves the projects that it has to other servers. Without it, they stay and work.`,
        params: Params,
        body: DrainServer,
        response: { 200: DrainResponse },
      },
    },
    async (request): Promise<DrainResponse> => {
      const given = manage(request);
      const { move, max_pause_ms: maxPauseMs } = request.body;
      const server = await changeServer(given, idOf(request), { state: 'draining' });
      if (!move) return { ok: true, server };
      const job = await startDrain(deps.moves, accountOf(operatorOf(request)), server.id, maxPauseMs);
      return { ok: true, server, job };
    },
  );

  app.delete<{ Params: Params; Querystring: Removal }>(
    '/servers/:id',
    {
      config: {
        action: 'service.operate',
        audit: { action: 'server.remove' },
        fails: ['server_not_found', 'conflict'],
      },
      schema: {
        operationId: 'removeServer',
        tags,
        summary: 'Remove a server',
        description: `${description} Refused while it has projects, or deleted ones that can still be restored. Nothing is deleted on it but unused databases and the replication slot of its backups. What is stored of it is kept as long as other backups.`,
        params: Params,
        querystring: Removal,
        response: { 200: RemovedServerResponse },
      },
    },
    async (request): Promise<RemovedServerResponse> => {
      const isLost = request.query.lost === 'true';
      const { server, givenUp, leftSlot } = await removeServer(manage(request), idOf(request), isLost);
      const { live, deleted } = givenUp;
      return {
        ok: true,
        server,
        left_slot: leftSlot,
        given_up: { projects: live, deleted_projects: deleted },
      };
    },
  );
}
