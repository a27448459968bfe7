// The proxy in front of a PostgreSQL server that is reached by TLS. It needs a PostgreSQL of its own.

import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, chownSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Address } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { clusterFolderOf, type Embedded, startEmbedded } from '../../src/servers/embedded/embedded.ts';
import { createSelfSigned } from '../../src/tls/certificate.ts';
import { asAdmin, openTestService, type TestService, until } from '../support/helpers.ts';
import { cancelRequest, connectPg, exchange, loginOf, openProxy } from '../support/proxy-clients.ts';

let folder: string;
let engine: Embedded;
let rowhouse: TestService;

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-tls-server-'));
  engine = await startEmbedded({
    connections: 100,
    dataFolder: folder,
    masterKey: randomBytes(32),
    more: { fsync: 'off' },
    say: () => {},
    onEvent: (event, details) => console.error(event, details),
  });
  const { key, certificate } = createSelfSigned(['127.0.0.1']);
  const { uid, gid } = statSync(clusterFolderOf(folder));
  for (const [name, content] of [
    ['server.key', key],
    ['server.crt', certificate],
  ] as const) {
    const file = path.join(clusterFolderOf(folder), name);
    writeFileSync(file, content);
    chmodSync(file, 0o600);
    chownSync(file, uid, gid);
  }
  const { socket: _none, ...address } = engine.address;
  await asAdmin(async (admin) => {
    await admin.query(sql`alter system set ssl = on`);
    await admin.query(sql`select pg_reload_conf()`);
  }, address);
  const at: Address = { ...address, tls: { rejectUnauthorized: false } };
  rowhouse = await until('TLS is on', () => openTestService({ at }).catch(() => undefined));
});

afterAll(async () => {
  await rowhouse?.stop();
  await engine?.stop();
  rmSync(folder, { recursive: true, force: true });
});

it('a client logs in without channel binding, runs statements and cancels them', async () => {
  const { slug } = await rowhouse.project('Behind TLS');
  const login = await loginOf(rowhouse, slug);
  const proxy = await openProxy(rowhouse);
  for (const ssl of [false, { rejectUnauthorized: false }]) {
    const client = await connectPg(proxy.port, login, { ssl });
    const { rows } = await client.query(
      'select ssl, repeat($1, 1000000) as x from pg_stat_ssl where pid = pg_backend_pid()',
      ['x'],
    );
    expect(rows).toEqual([{ ssl: true, x: 'x'.repeat(1_000_000) }]);
    const { processID, secretKey } = client as unknown as { processID: number; secretKey: number };
    const secret = Buffer.alloc(4);
    secret.writeInt32BE(secretKey);
    let code = '';
    const running = client.query('select pg_sleep(60)').catch((error) => {
      code = error.code;
    });
    await until('it is cancelled', async () => {
      await exchange(proxy.port, cancelRequest(processID, secret));
      return code !== '';
    });
    await running;
    expect(code).toBe('57014');
  }
});

const hasPsql = spawnSync('psql', ['--version']).status === 0;
if (!hasPsql) console.warn('SKIPPED: psql is not installed, so it does not try channel binding.');
it.skipIf(!hasPsql)('psql is told to turn channel binding off, as the connection string does', async () => {
  const { slug } = await rowhouse.project('Bound');
  const login = await loginOf(rowhouse, slug);
  const proxy = await openProxy(rowhouse);
  const psql = async (parameters: string) => {
    const { user, password, database } = login;
    const place = `host=127.0.0.1 port=${proxy.port} user=${user} dbname=${database} ${parameters}`;
    const child = spawn('psql', ['-XAt', place, '-c', 'select 1'], {
      env: { ...process.env, PGPASSWORD: password },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const [output, problems] = await Promise.all([text(child.stdout), text(child.stderr)]);
    return `${output}${problems}`.trim();
  };
  expect(await psql('sslmode=require')).toContain(
    'HINT:  Add channel_binding=disable to the connection string.',
  );
  expect(await psql('sslmode=require channel_binding=disable')).toBe('1');
  expect(await psql('sslmode=disable')).toBe('1');
  const second = await openTestService({
    at: rowhouse.service.deps.server.address,
    controlDatabase: rowhouse.controlDatabase,
    masterKey: rowhouse.service.deps.masterKey,
    background: false,
    spares: 0,
    proxy: { host: 'db.example.com', port: 5432, sslmode: 'require' },
  });
  try {
    const { body } = await second.call('GET', `/projects/${slug}/connection`, { key: rowhouse.accountKey });
    expect(body.connection).toMatchObject({ host: 'db.example.com', port: 5432 });
    expect(body.connection.url).toContain('@db.example.com:5432/');
    expect(body.connection.url).toMatch(/\?sslmode=require&channel_binding=disable$/);
  } finally {
    await second.stop();
  }
});
