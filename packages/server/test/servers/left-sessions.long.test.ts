// Sessions whose client has gone, and that do not notice it themselves.
import { once } from 'node:events';
import { connect as connectSocket, createServer, Socket } from 'node:net';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf, roleOf } from '../../src/servers/databases/names.ts';
import { endLeftSessions } from '../../src/servers/guards/left-sessions.ts';
import { derivePassword } from '../../src/servers/role-passwords.ts';
import { asAdmin, until } from '../support/helpers.ts';
import { useOwnPostgres } from '../support/own-postgres.ts';

const own = useOwnPostgres({ background: false });

/** PostgreSQL does not look whether the client is still there. */
const unaware = 'set client_connection_check_interval = 0';

/** `from`: the port of the client. */
async function connect(id: string, from = 0) {
  const { service } = own.rowhouse;
  const user = roleOf(id);
  const socket = new Socket();
  const connectFrom = socket.connect.bind(socket) as (options: object) => Socket;
  const ownEnd = { localAddress: '127.0.0.1', localPort: from };
  socket.connect = ((port: number, host: string) => connectFrom({ port, host, ...ownEnd })) as never;
  const { host, port } = own.engine.address;
  const client = new pg.Client({
    host,
    port,
    user,
    password: derivePassword(service.deps.masterKey, user),
    database: databaseOf(id),
    stream: () => socket,
  });
  client.on('error', () => {});
  await client.connect();
  onTestFinished(() => void socket.destroy());
  const { rows } = await client.query('select pg_backend_pid() as pid');
  await client.query(unaware);
  return { client, socket, pid: rows[0].pid as number, port: socket.localPort };
}

/** Another server at the same port of another address, which a client has left. Returns the client's port. */
async function leaveOther(): Promise<number> {
  const { port } = own.engine.address;
  const other = createServer({ allowHalfOpen: true });
  const accepted = once(other, 'connection');
  other.listen(port, '127.0.0.2');
  await once(other, 'listening');
  const left = connectSocket({ host: '127.0.0.2', port, localAddress: '127.0.0.1' });
  const [socket] = (await accepted) as [Socket];
  onTestFinished(() => {
    for (const one of [left, socket]) one.destroy();
    other.close();
  });
  left.end();
  return left.localPort as number;
}

it('are ended, and those of other clients with the same port are not', { timeout: 60_000 }, async () => {
  const [project, neighbour] = [await own.rowhouse.project('Left'), await own.rowhouse.project('Stays')];
  const gone = await connect(project.id);
  const port = await leaveOther();
  const staying = await connect(neighbour.id, port);
  expect(staying.port).toBe(port);
  for (const { client } of [gone, staying]) client.query('select pg_sleep(50)').catch(() => {});
  // It sends what it has to send, and goes.
  await new Promise((resolve) => setTimeout(resolve, 300));
  gone.socket.end();
  const ended: number[] = [];
  const look = () =>
    endLeftSessions(own.rowhouse.service.deps, { endLeft: (_server, _project, pid) => void ended.push(pid) });
  await look();
  // Within the first seconds, PostgreSQL may still notice it itself.
  expect(ended).toEqual([]);
  await until('it is found', async () => look().then(() => ended.length > 0), 30_000);
  expect([...new Set(ended)]).toEqual([gone.pid]);
  const states = await asAdmin(
    (admin) => admin.query(sql`select state from pg_stat_activity where pid = ${staying.pid}`),
    own.engine.address,
  );
  expect(states).toEqual([{ state: 'active' }]);
  // They would go on.
  const pids = [gone.pid, staying.pid];
  await until('both have ended', () =>
    asAdmin(async (admin) => {
      const found = await admin.query(
        sql`select pg_terminate_backend(pid) from pg_stat_activity where pid = any (${pids}::int[])`,
      );
      return found.length === 0;
    }, own.engine.address),
  );
});
