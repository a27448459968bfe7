import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import { readConfig } from '../settings/config.ts';
import { createSelfSigned } from '../tls/certificate.ts';
import { examineProxy } from './examine.ts';
import { publicAddress } from './public-address.ts';
import { tlsFilesOf } from './start.ts';

let folder: string;
let port: number;
beforeEach(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-examine-'));
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  ({ port } = server.address() as { port: number });
  server.close();
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
});
const configOf = (more: Record<string, string> = {}) =>
  readConfig({ ROWHOUSE_DATA: folder, ROWHOUSE_POSTGRES_PORT: String(port), ...more }, '/');
const statesOf = async (...args: Parameters<typeof examineProxy>) =>
  (await examineProxy(...args)).map(({ state, found }) => `${state}: ${found}`);

it('doctor reports the port and the certificate of the PostgreSQL proxy', async () => {
  expect(await examineProxy(readConfig({ ROWHOUSE_DATA: folder }, '/'), false)).toEqual([]);
  expect(await statesOf(configOf(), false)).toEqual([
    `ok: ${port} on 127.0.0.1 is free`,
    'ok: a self-signed certificate will be created at the start',
  ]);
  tlsFilesOf(configOf(), { make: true });
  expect((await statesOf(configOf(), false))[1]).toMatch(
    /^ok: self-signed certificate, valid for 36\d\d days$/,
  );
  const inTenYears = Date.now() + 3_645 * 86_400_000;
  expect((await statesOf(configOf(), false, inTenYears))[1]).toMatch(
    /^warning: the certificate expires in \d days$/,
  );
  expect((await statesOf(configOf(), false, inTenYears + 86_400_000 * 30))[1]).toMatch(
    /^problem: the certificate has expired/,
  );
  const busy = createServer().listen(port, '127.0.0.1');
  await once(busy, 'listening');
  onTestFinished(() => void busy.close());
  expect((await statesOf(configOf(), true))[0]).toBe(`ok: ${port} on 127.0.0.1 is used by the service`);
  expect((await statesOf(configOf(), false))[0]).toContain('problem: the service cannot listen');
});

it('doctor compares the certificate of the operator with the public name', async () => {
  const { key, certificate } = createSelfSigned(['db.example.com']);
  const files = {
    ROWHOUSE_POSTGRES_TLS_CERT: `${folder}/c.pem`,
    ROWHOUSE_POSTGRES_TLS_KEY: `${folder}/k.pem`,
  };
  writeFileSync(files.ROWHOUSE_POSTGRES_TLS_CERT, certificate);
  writeFileSync(files.ROWHOUSE_POSTGRES_TLS_KEY, key);
  const named = (name: string) => configOf({ ...files, ROWHOUSE_PUBLIC_HOST: name });
  expect((await statesOf(named('db.example.com'), false))[1]).toMatch(/^ok: /);
  expect((await statesOf(named('other.example.com'), false))[1]).toContain('not for other.example.com');
  writeFileSync(files.ROWHOUSE_POSTGRES_TLS_KEY, createSelfSigned(['db.example.com']).key);
  expect((await statesOf(named('db.example.com'), false))[1]).toMatch(/^problem: TLS cannot be offered/);
  expect((await statesOf(configOf({ ROWHOUSE_POSTGRES_HOST: '0.0.0.0' }), false))[2]).toContain('127.0.0.1');
});

it('clients are told a name that they can use, and to use TLS unless it is this machine', () => {
  const told = (more: Record<string, string>) => publicAddress(configOf(more));
  expect(publicAddress(readConfig({}, '/'))).toBeNull();
  expect(told({})).toEqual({ host: '127.0.0.1', port, sslmode: null });
  expect(told({ ROWHOUSE_POSTGRES_HOST: '0.0.0.0' })).toEqual({ host: '127.0.0.1', port, sslmode: null });
  expect(told({ ROWHOUSE_HOST: '10.0.0.7' })).toEqual({ host: '10.0.0.7', port, sslmode: 'require' });
  expect(told({ ROWHOUSE_HOST: '::', ROWHOUSE_PUBLIC_HOST: 'db.example.com' })).toEqual({
    host: 'db.example.com',
    port,
    sslmode: 'require',
  });
});
