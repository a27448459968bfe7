// The samples for nginx and Caddy in deploy/machine, run by the real programs in front of a real service. Only ports, names of
// files and where certificates come from differ from what an operator copies.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { Agent, request as httpsRequest, type RequestOptions } from 'node:https';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSelfSigned } from '../../src/tls/certificate.ts';
import { api, until } from '../support/helpers.ts';
import {
  cleanUp,
  freePort,
  launch,
  newAccountKey,
  type Running,
  usedDataFolder,
} from '../support/process.ts';
import { findProgram } from '../support/programs.ts';
import { root } from '../support/toolchains.ts';

type Proxy = { port: number; ca: string; stop(): Promise<void> };
type Start = (
  folder: string,
  servicePort: number,
) => Promise<{ args: string[]; env: object; port: number; ca(): string }>;

const samples = path.join(root, 'deploy', 'machine');
const name = 'db.example.com';

const nginx: Start = async (folder, servicePort) => {
  const [port, plainPort] = [await freePort(), await freePort()];
  const { key, certificate } = createSelfSigned([name]);
  writeFileSync(path.join(folder, 'key.pem'), key);
  writeFileSync(path.join(folder, 'cert.pem'), certificate);
  const sample = readFileSync(path.join(samples, 'nginx.conf'), 'utf8')
    .replace('127.0.0.1:8765', `127.0.0.1:${servicePort}`)
    .replaceAll(/listen \[::\]:.*\n/g, '')
    .replace('listen 443 ssl;', `listen 127.0.0.1:${port} ssl;`)
    .replace('listen 80;', `listen 127.0.0.1:${plainPort};`)
    .replace(/ssl_certificate \S+;/, `ssl_certificate ${folder}/cert.pem;`)
    .replace(/ssl_certificate_key \S+;/, `ssl_certificate_key ${folder}/key.pem;`);
  writeFileSync(path.join(folder, 'rowhouse.conf'), sample);
  const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `${kind}_temp_path ${folder}/${kind};`,
  );
  const user = process.getuid?.() === 0 ? 'user root;' : '';
  writeFileSync(
    path.join(folder, 'nginx.conf'),
    `${user} daemon off; pid ${folder}/nginx.pid; error_log stderr warn; events {}
     http { access_log off; ${places.join(' ')} include ${folder}/rowhouse.conf; }`,
  );
  return {
    args: ['-e', 'stderr', '-p', folder, '-c', `${folder}/nginx.conf`],
    env: {},
    port,
    ca: () => certificate,
  };
};

const caddy: Start = async (folder, servicePort) => {
  const port = await freePort();
  // Its own authority instead of a public one.
  const options = '{\n\tadmin off\n\tlocal_certs\n\tskip_install_trust\n\tauto_https disable_redirects\n}\n';
  const sample = readFileSync(path.join(samples, 'Caddyfile'), 'utf8');
  writeFileSync(path.join(folder, 'Caddyfile'), options + sample);
  const env = {
    PUBLIC_HOST: `https://${name}:${port}`,
    ROWHOUSE_ADDRESS: `127.0.0.1:${servicePort}`,
    XDG_DATA_HOME: folder,
    XDG_CONFIG_HOME: folder,
    HOME: folder,
  };
  const authority = path.join(folder, 'caddy/pki/authorities/local/root.crt');
  const ca = () => (existsSync(authority) ? readFileSync(authority, 'utf8') : '');
  return { args: ['run', '--config', `${folder}/Caddyfile`, '--adapter', 'caddyfile'], env, port, ca };
};

const proxies = [
  {
    title: 'nginx',
    start: nginx,
    program: await findProgram('nginx', 'deploy/machine/nginx.conf is not run'),
  },
  {
    title: 'caddy',
    start: caddy,
    program: await findProgram('caddy', 'deploy/machine/Caddyfile is not run'),
  },
];
afterAll(cleanUp);

describe.each(proxies)('behind $title', ({ title, start, program }) => {
  if (program === null) return it.skip('it could not be fetched');
  const key = newAccountKey();
  let data: string;
  let service: Running;
  let proxy: Proxy;
  beforeAll(async () => {
    data = await usedDataFolder();
    service = await launch({
      ROWHOUSE_DATA: data,
      ROWHOUSE_ACCOUNT_KEY: key,
      ROWHOUSE_REQUEST_LOG: 'file',
      ROWHOUSE_TRUSTED_PROXIES: 'loopback',
      ROWHOUSE_CONSOLE_HOSTS: name,
    });
    proxy = await run(title, program, start, Number(new URL(service.url).port));
    await service.call('POST', '/projects', { body: { name: 'Shop', slug: 'shop', limit_mb: 2_000 } });
    await query('create table t (id int, body text)');
    return proxy.stop;
  });

  const send = async (options: RequestOptions, body?: Readable | string): Promise<IncomingMessage> => {
    const agent = new Agent({ ca: proxy.ca, servername: name });
    const headers = { host: name, 'x-api-key': key, ...options.headers };
    const request = httpsRequest({ host: '127.0.0.1', port: proxy.port, agent, ...options, headers });
    const response = once(request, 'response') as Promise<[IncomingMessage]>;
    if (body instanceof Readable) await pipeline(body, request);
    else request.end(body);
    return (await response)[0];
  };
  const textOf = async (response: IncomingMessage) => (await response.toArray()).join('');
  const query = async (text: string) => {
    const headers = { 'content-type': 'application/json' };
    const target = `${api}/projects/shop/query`;
    const response = await send({ method: 'POST', path: target, headers }, JSON.stringify({ query: text }));
    return JSON.parse(await textOf(response));
  };

  it('an import of 100 MB passes through without being stored on the way', async () => {
    const line = `,${'x'.repeat(1_000)}\n`;
    const count = 105_000;
    const lines = function* () {
      yield 'id,body\n';
      for (let id = 0; id < count; id += 100) {
        yield Array.from({ length: 100 }, (_, index) => `${id + index}${line}`).join('');
      }
    };
    const headers = { 'content-type': 'text/csv' };
    const target = `${api}/projects/shop/tables/t`;
    const response = await send({ method: 'POST', path: target, headers }, Readable.from(lines()));
    expect(JSON.parse(await textOf(response))).toEqual({ ok: true, row_count: count });
    expect((await query('select count(*)::int as n, sum(length(body))::int as size from t')).rows).toEqual([
      { n: count, size: count * 1_000 },
    ]);
  });

  it('rows leave while the statement still runs, and a large answer arrives whole', async () => {
    const headers = { 'content-type': 'application/json', accept: 'application/x-ndjson' };
    const target = `${api}/projects/shop/query`;
    const text =
      "select i, repeat('x', 100000), case when i > 20 then pg_sleep(0.5) end from generate_series(1, 26) i";
    const response = await send({ method: 'POST', path: target, headers }, JSON.stringify({ query: text }));
    const beganAt = performance.now();
    let firstAt = 0;
    let size = 0;
    for await (const piece of response) {
      firstAt ||= performance.now();
      size += piece.length;
    }
    expect(size).toBeGreaterThan(26 * 100_000);
    // The statement waits for 3 s after the first rows.
    expect(performance.now() - firstAt).toBeGreaterThan(1_500);
    expect(firstAt - beganAt).toBeLessThan(performance.now() - firstAt);
    const all = await send({ path: `${api}/projects/shop/tables/t`, headers: { accept: 'text/csv' } });
    let bytes = 0;
    for await (const piece of all) bytes += piece.length;
    expect(bytes).toBeGreaterThan(105_000_000);
  });

  it('the log has the address of the client, not what it claims, and metrics stay closed', async () => {
    const id = `from-${title}`;
    const headers = { 'x-request-id': id, 'x-forwarded-for': '198.51.100.1' };
    const response = await send({ path: `${api}/projects`, headers, localAddress: '127.0.0.77' });
    expect(response.statusCode).toBe(200);
    response.resume();
    const log = path.join(data, 'logs', 'requests.log');
    await until('it is logged', async () => readFileSync(log, 'utf8').includes(id));
    const line =
      readFileSync(log, 'utf8')
        .split('\n')
        .find((text) => text.includes(id)) ?? '';
    expect(JSON.parse(line)).toMatchObject({ client: '127.0.0.77', status: 200 });
    for (const claim of [{}, { 'x-forwarded-for': '127.0.0.1' }]) {
      const metrics = await send({ path: '/metrics', headers: { 'x-api-key': '', ...claim } });
      metrics.resume();
      expect(metrics.statusCode).toBe(401);
    }
  });

  it('the console opens under its public name, and there is nothing to upgrade to', async () => {
    // 503: the console is not built in this checkout. Another name gets 403.
    for (const claim of [{}, { 'x-forwarded-host': 'other.example.com' }]) {
      const page = await send({ path: '/console/', headers: claim });
      expect([200, 503]).toContain(page.statusCode);
      expect(await textOf(page)).toContain('<!doctype html>');
    }
    const headers = { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' };
    const upgrade = await send({ path: '/healthz', headers });
    upgrade.resume();
    expect(upgrade.statusCode).toBe(200);
  });
});

async function run(title: string, program: string, start: Start, servicePort: number): Promise<Proxy> {
  const folder = mkdtempSync(path.join(tmpdir(), `rowhouse-${title}-`));
  mkdirSync(path.join(folder, 'logs'));
  const { args, env, port, ca } = await start(folder, servicePort);
  const child = spawn(program, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (text) => {
      output += text;
    });
  }
  const answers = () =>
    new Promise<boolean>((resolve) => {
      const options = { host: '127.0.0.1', port, path: '/readyz', headers: { host: name } };
      httpsRequest({ ...options, servername: name, ca: ca(), agent: false }, (response) => {
        response.resume();
        resolve(response.statusCode === 200);
      })
        .on('error', () => resolve(false))
        .end();
    });
  const stop = async () => {
    if (child.kill('SIGTERM')) await once(child, 'exit');
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await until(`${title} answers`, async () => child.exitCode !== null || (await answers()), 30_000);
    expect(child.exitCode).toBeNull();
  } catch (error) {
    await stop();
    throw new Error(`${error}\n${output}`);
  }
  return { port, ca: ca(), stop };
}
