// A service behind a certificate of one's own authority: what the command says, and --ca, ROWHOUSE_CA and a profile that has it.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { bare, bin } from './installation.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-ca-'));
const ca = path.join(folder, 'ca.pem');
let server: Server;
let url = '';

const openssl = (...args: string[]) => {
  const { status, stderr } = spawnSync('openssl', args, { cwd: folder, encoding: 'utf8' });
  expect(status, stderr).toBe(0);
};
const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

beforeAll(async () => {
  openssl('req', '-x509', ...newKey, '-keyout', 'ca.key', '-out', 'ca.pem', '-subj', '/CN=Own', '-days', '2');
  openssl('req', ...newKey, '-keyout', 'server.key', '-out', 'server.csr', '-subj', '/CN=localhost');
  writeFileSync(path.join(folder, 'names'), 'subjectAltName=DNS:localhost\n');
  const signed = ['-in', 'server.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial'];
  openssl('x509', '-req', ...signed, '-days', '2', '-extfile', 'names', '-out', 'server.pem');
  const read = (name: string) => readFileSync(path.join(folder, name));
  const account = { ok: true, account: { name: 'Own' }, role: 'owner', projects: [] };
  server = createServer({ key: read('server.key'), cert: read('server.pem') }, (_request, response) => {
    response.setHeader('content-type', 'application/json').end(JSON.stringify(account));
  });
  await new Promise<void>((resolve) => server.listen(0, resolve));
  url = `https://localhost:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
  rmSync(folder, { recursive: true, force: true });
});

/** This process answers the requests, so it must not wait for the command. */
async function run(args: string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [bin, ...args], {
    env: { ...bare, XDG_CONFIG_HOME: folder, NO_COLOR: '1', ROWHOUSE_API_KEY: 'rh_acct_x', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    cwd: folder,
  });
  let out = '';
  let err = '';
  child.stdout.on('data', (text) => (out += text));
  child.stderr.on('data', (text) => (err += text));
  const status = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { status, out, err };
}
const list = (...args: string[]) => run(['projects', 'list', '--url', url, ...args]);

it('an unknown authority is named, with all ways to trust it', async () => {
  const { status, err } = await list();
  expect(status).toBe(3);
  for (const text of ['does not trust the certificate', '--ca', 'ROWHOUSE_CA', 'NODE_EXTRA_CA_CERTS'])
    expect(err).toContain(text);
});

it('the option, both variables, and a profile make it trusted', async () => {
  const trusted = { status: 0, out: '', err: expect.stringContaining('no projects') };
  expect(await list('--ca', 'ca.pem')).toEqual(trusted);
  expect(await run(['projects', 'list', '--url', url], { ROWHOUSE_CA: ca })).toEqual(trusted);
  expect(await run(['projects', 'list', '--url', url], { NODE_EXTRA_CA_CERTS: ca })).toEqual(trusted);
  const login = await run(['login', '--url', url, '--file', '--ca', 'ca.pem']);
  expect([login.status, login.err]).toEqual([0, '']);
  expect(await run(['projects', 'list'], { ROWHOUSE_API_KEY: '' })).toEqual(trusted);
  // It is for the service of the profile alone.
  expect((await run(['projects', 'list', '--url', url.replace('localhost', '127.0.0.1')])).status).toBe(3);
});

it('another name than that of the certificate stays refused', async () => {
  const { status, err } = await run([
    'projects',
    'list',
    '--url',
    url.replace('localhost', '127.0.0.1'),
    '--ca',
    ca,
  ]);
  expect([status, err]).toEqual([3, expect.stringContaining('is for another name')]);
});

it('a file that is missing, or has no certificate, is refused', async () => {
  expect(await list('--ca', 'nothing.pem')).toMatchObject({
    status: 1,
    err: expect.stringContaining('cannot be read'),
  });
  expect(await list('--ca', 'ca.key')).toMatchObject({
    status: 1,
    err: expect.stringContaining('has no certificate'),
  });
});
