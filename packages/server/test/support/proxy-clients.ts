// Clients of PostgreSQL and its proxy, polite and hostile ones, and a proxy in front of a test's service.
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { onTestFinished } from 'vitest';
import { openPostgresProxy, type PostgresProxy, type ProxyOptions } from '../../src/postgres-proxy/proxy.ts';
import { isThere } from '../../src/postgres-proxy/start.ts';
import { ensureSelfSigned, openTls } from '../../src/tls/files.ts';
import type { TestService } from './helpers.ts';

export type TestProxy = PostgresProxy & { port: number; certificate: string; log: [object, string][] };

/** In front of the service's server, on a free port of all loopback addresses. Stopped after the test. */
export async function openProxy(
  { service }: TestService,
  options: Partial<ProxyOptions> = {},
): Promise<TestProxy> {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-proxy-'));
  const files = ensureSelfSigned(folder, ['localhost', '127.0.0.1']);
  const log: TestProxy['log'] = [];
  const note = (details: object, message: string) => void log.push([details, message]);
  const { server } = service.deps;
  const proxy = openPostgresProxy({
    serverOf: async () => server,
    servers: () => [server],
    whyEnded: async () => null,
    isThere: (id) => isThere(service.deps.control, id),
    context: openTls(files, () => {}),
    allowPlaintext: false,
    maxConnections: 100,
    log: { debug: note, info: note, warn: note },
    ...options,
  });
  const port = await proxy.listen('0.0.0.0', 0);
  onTestFinished(async () => {
    await proxy.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  return { ...proxy, port, certificate: files.certificate, log };
}

export type Login = { user: string; password: string; database: string };

export async function loginOf(rowhouse: TestService, slug: string): Promise<Login> {
  const { body } = await rowhouse.call('GET', `/projects/${slug}/connection`);
  const { user, password, database } = body.connection;
  return { user, password, database };
}

/** Past the proxy and the API, in a session of its own. */
export async function runDirectly(
  rowhouse: TestService,
  slug: string,
  statements: readonly string[],
): Promise<void> {
  const { body } = await rowhouse.call('GET', `/projects/${slug}/connection`);
  const client = new pg.Client({ connectionString: body.connection.url });
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}

/** Closed after the test. */
export async function connectPg(port: number, login: Login, more: pg.ClientConfig = {}): Promise<pg.Client> {
  const client = new pg.Client({ host: '127.0.0.1', port, ...login, ...more });
  client.on('error', () => {});
  onTestFinished(() => client.end().catch(() => {}));
  await client.connect();
  return client;
}

export function startupPacket(
  settings: Record<string, string> | [string, string][],
  version = 196_608,
): Buffer {
  const pairs = Array.isArray(settings) ? settings : Object.entries(settings);
  const body = Buffer.from(`${pairs.map(([name, value]) => `${name}\0${value}\0`).join('')}\0`);
  return withHead(version, body);
}

export const sslRequest = withHead(80_877_103);
export const gssRequest = withHead(80_877_104);

export function cancelRequest(pid: number, secret: Buffer): Buffer {
  const id = Buffer.alloc(4);
  id.writeInt32BE(pid);
  return withHead(80_877_102, Buffer.concat([id, secret]));
}

function withHead(code: number, body: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(8);
  head.writeInt32BE(body.length + 8);
  head.writeInt32BE(code, 4);
  return Buffer.concat([head, body]);
}

/** A connection without a driver. `from`: a loopback address of the client's own. Destroyed after the test. */
export async function connectRaw(port: number, from = '127.0.0.1'): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port, localAddress: from });
  socket.on('error', () => {});
  onTestFinished(() => void socket.destroy());
  await once(socket, 'connect');
  return socket;
}

/** Sends `bytes`, and returns everything that comes until the other side closes the connection. */
export async function exchange(port: number, bytes: Buffer, from?: string): Promise<Buffer> {
  const socket = await connectRaw(port, from);
  socket.write(bytes);
  return everything(socket);
}

export async function everything(socket: Socket): Promise<Buffer> {
  const pieces: Buffer[] = [];
  socket.on('data', (piece) => pieces.push(piece));
  if (!socket.closed) await once(socket, 'close');
  return Buffer.concat(pieces);
}

/** The fields of an ErrorResponse. */
export function errorIn(bytes: Buffer): { sqlstate?: string; message?: string; hint?: string } {
  if (bytes[0] !== 'E'.charCodeAt(0)) throw new Error(`Not an error: ${bytes.toString('latin1')}`);
  const fields = new Map(
    bytes
      .toString('utf8', 5)
      .split('\0')
      .map((field) => [field.slice(0, 1), field.slice(1)]),
  );
  const [sqlstate, message, hint] = ['C', 'M', 'H'].map((name) => fields.get(name));
  return { ...(sqlstate && { sqlstate }), ...(message && { message }), ...(hint && { hint }) };
}
