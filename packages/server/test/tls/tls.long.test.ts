// HTTPS by the service itself, in real processes: renewal of the certificate, the warning without TLS, ports in use, and who
// may read the metrics.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request as httpsRequest } from 'node:https';
import { createServer } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import path from 'node:path';
import { connect, type TLSSocket } from 'node:tls';
import pg from 'pg';
import { afterAll, expect, it, onTestFinished } from 'vitest';
import { createSelfSigned } from '../../src/tls/certificate.ts';
import { api, until } from '../support/helpers.ts';
import {
  cleanUp,
  freePort,
  launch,
  newAccountKey,
  newDataFolder,
  usedDataFolder,
} from '../support/process.ts';

afterAll(cleanUp);

type Files = { certificate: string; key: string };

function newFiles(): Files {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-tls-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const files = { certificate: path.join(folder, 'cert.pem'), key: path.join(folder, 'key.pem') };
  renew(files);
  return files;
}

function renew(files: Files): string {
  const made = createSelfSigned(['localhost', '127.0.0.1']);
  writeFileSync(files.key, made.key);
  writeFileSync(files.certificate, made.certificate);
  return made.certificate;
}

/** A new connection that trusts no other certificate. */
async function fetchWith(port: number, ca: string, target = '/readyz'): Promise<number> {
  const agent = new Agent({ ca });
  const request = httpsRequest({ host: '127.0.0.1', port, path: target, agent }).end();
  const [response] = await once(request, 'response');
  response.resume();
  agent.destroy();
  return response.statusCode;
}

/** HTTP on a socket that stays open. */
async function ask(socket: TLSSocket, target: string): Promise<string> {
  socket.write(`GET ${target} HTTP/1.1\r\nhost: localhost\r\n\r\n`);
  const [data] = await once(socket, 'data');
  return String(data).split('\r\n')[0] ?? '';
}

it('a renewed certificate is used by two workers without a restart, an invalid one is not, and no connection is dropped', async () => {
  const files = newFiles();
  const [port, postgresPort, dataFolder] = [await freePort(), await freePort(), await usedDataFolder()];
  const key = newAccountKey();
  const service = await launch({
    ROWHOUSE_DATA: dataFolder,
    ROWHOUSE_ACCOUNT_KEY: key,
    ROWHOUSE_PORT: String(port),
    ROWHOUSE_TLS_CERT: files.certificate,
    ROWHOUSE_TLS_KEY: files.key,
    ROWHOUSE_WORKERS: '2',
    ROWHOUSE_POSTGRES_PORT: String(postgresPort),
    ROWHOUSE_PUBLIC_HOST: 'localhost',
  });
  expect(service.output()).toContain(`address      https://127.0.0.1:${port}`);
  expect(service.output()).not.toContain('without TLS');
  const first = readFileSync(files.certificate, 'utf8');
  expect(await fetchWith(port, first)).toBe(200);
  await expect(fetch(`http://127.0.0.1:${port}/readyz`)).rejects.toThrow();
  // Old versions of the protocol are refused.
  const old = connect({
    port,
    ca: first,
    minVersion: 'TLSv1',
    maxVersion: 'TLSv1.1',
    ciphers: 'DEFAULT@SECLEVEL=0',
  });
  await expect(once(old, 'secureConnect')).rejects.toThrow();

  // Direct connections use the same certificate.
  const response = await new Promise<string>((resolve, reject) => {
    const headers = { 'x-api-key': key, 'content-type': 'application/json' };
    const agent = new Agent({ ca: first });
    httpsRequest(
      { host: '127.0.0.1', port, path: `${api}/projects`, method: 'POST', headers, agent },
      async (res) => {
        resolve((await res.toArray()).join(''));
      },
    )
      .on('error', reject)
      .end('{"name":"Tls"}');
  });
  const { project, api_key: projectKey } = JSON.parse(response);
  const connection = await new Promise<string>((resolve, reject) => {
    const headers = { 'x-api-key': projectKey };
    httpsRequest(
      { host: '127.0.0.1', port, path: `${api}/projects/${project.slug}/connection`, headers, ca: first },
      async (res) => resolve((await res.toArray()).join('')),
    )
      .on('error', reject)
      .end();
  });
  const { user, password, database } = JSON.parse(connection).connection;
  const client = new pg.Client({
    host: 'localhost',
    port: postgresPort,
    user,
    password,
    database,
    ssl: { ca: first },
  });
  await client.connect();
  expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  await client.end();

  const kept = connect({ port, ca: first, servername: 'localhost' });
  await once(kept, 'secureConnect');
  expect(await ask(kept, '/healthz')).toBe('HTTP/1.1 200 OK');

  // A file that is written only half stays without effect, and is reported.
  writeFileSync(files.certificate, first.slice(0, 200));
  const log = path.join(dataFolder, 'logs', 'rowhouse.log');
  await until(
    'it is reported',
    async () => {
      expect(await fetchWith(port, first)).toBe(200);
      return readFileSync(log, 'utf8').includes('the new TLS certificate cannot be used');
    },
    60_000,
  );
  const second = renew(files);
  const isRenewed = async () => (await fetchWith(port, second).catch(() => 0)) === 200;
  // The workers take turns.
  await until(
    'both use it',
    async () => (await isRenewed()) && (await isRenewed()) && (await isRenewed()),
    60_000,
  );
  await expect(fetchWith(port, first)).rejects.toThrow();
  expect(await ask(kept, '/healthz')).toBe('HTTP/1.1 200 OK');
  kept.destroy();

  const doctor = spawnSync(
    process.execPath,
    [path.resolve(import.meta.dirname, '../../dist/programs/doctor.js')],
    {
      env: { ...process.env, ROWHOUSE_TLS_CERT: files.certificate, ROWHOUSE_TLS_KEY: files.key },
      cwd: newDataFolder(),
      encoding: 'utf8',
    },
  );
  const found = JSON.parse(doctor.stdout).find(({ check }: { check: string }) => check === 'TLS');
  expect(found).toMatchObject({ state: 'ok', found: expect.stringContaining(files.certificate) });
  expect(await service.stop('SIGINT')).toBe(0);
  expect(service.output()).toMatch(/^Stopping\. Running requests have 15 s to finish\.\nStopped\.$/m);
});

it('a certificate that cannot be used, or a port in use, stops the start before anything is written', async () => {
  const files = newFiles();
  const folder = path.join(newDataFolder(), 'data');
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  onTestFinished(() => void taken.close());
  const { port } = taken.address() as { port: number };
  const attempts: [Record<string, string>, string][] = [
    [{ ROWHOUSE_PORT: String(port) }, 'Set ROWHOUSE_PORT to another port'],
    [{ ROWHOUSE_POSTGRES_PORT: String(port) }, 'Set ROWHOUSE_POSTGRES_PORT to another port'],
    [{ ROWHOUSE_METRICS_PORT: String(port) }, 'Set ROWHOUSE_METRICS_PORT to another port'],
    [{ ROWHOUSE_TLS_CERT: files.certificate, ROWHOUSE_TLS_KEY: files.certificate }, 'TLS cannot be offered'],
  ];
  for (const [settings, expected] of attempts) {
    const service = await launch({ ROWHOUSE_DATA: folder, ...settings });
    expect((await service.exited).code).toBe(1);
    expect(service.output()).toContain(expected);
    expect(existsSync(folder)).toBe(false);
  }
  expect(readdirSync(path.dirname(folder))).toEqual([]);
});

const outside = Object.values(networkInterfaces())
  .flat()
  .find((found) => found?.family === 'IPv4' && !found.internal)?.address;
if (!outside) console.warn('SKIPPED: this machine has no address but its own.');

it.skipIf(!outside)(
  'on a public address the start warns, and metrics need an operator key or their own port',
  async () => {
    const [port, folder] = [await freePort(), newDataFolder()];
    const settings = { ROWHOUSE_DATA: folder, ROWHOUSE_HOST: '0.0.0.0', ROWHOUSE_PORT: String(port) };
    const service = await launch(settings);
    expect(service.output()).toContain('Other machines reach this address without TLS');
    const operatorKey = /rh_oper_\w+/.exec(service.output())?.[0] ?? '';
    const accountKey = /rh_acct_\w+/.exec(service.output())?.[0] ?? '';
    const statusOf = async (host: string, headers: Record<string, string> = {}) =>
      (await fetch(`http://${host}:${port}/metrics`, { headers })).status;
    expect(await statusOf('127.0.0.1')).toBe(200);
    expect(await statusOf(outside ?? '')).toBe(401);
    expect(await statusOf(outside ?? '', { authorization: 'Bearer rh_oper_nonsense' })).toBe(401);
    expect(await statusOf(outside ?? '', { authorization: `Bearer ${operatorKey}` })).toBe(200);
    // A key of the account default may operate the service until that is turned off.
    expect(await statusOf(outside ?? '', { 'x-api-key': accountKey })).toBe(200);
    const created = await service.call('POST', '/projects', { key: accountKey, body: { name: 'Plain' } });
    expect(await statusOf(outside ?? '', { 'x-api-key': created.body.api_key })).toBe(403);
    // A proxy on this machine passes on requests of others.
    expect(await statusOf('127.0.0.1', { 'x-forwarded-for': '203.0.113.9' })).toBe(401);
    expect(await statusOf('127.0.0.1', { 'x-forwarded-for': '127.0.0.1' })).toBe(401);
    expect(await service.stop()).toBe(0);

    const metricsPort = await freePort();
    const again = await launch({
      ...settings,
      ROWHOUSE_METRICS_PORT: String(metricsPort),
      ROWHOUSE_TRUSTED_PROXIES: 'loopback',
    });
    expect(again.output()).not.toContain('without TLS');
    expect((await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).status).toBe(200);
    await expect(fetch(`http://${outside}:${metricsPort}/metrics`)).rejects.toThrow();
    expect(await statusOf(outside ?? '', { authorization: `Bearer ${operatorKey}` })).toBe(404);
    expect(await again.stop()).toBe(0);
  },
);
