// The link that the start prints, and sessions across real processes.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { outcome, Page } from '../support/console-page.ts';
import { until } from '../support/helpers.ts';
import { freePort, launch, newDataFolder, type Running, usedDataFolder } from '../support/process.ts';

const main = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const linkForm = /^ {2}console {6}(http:\/\/127\.0\.0\.1:\d+)\/console\/#link=(rh_link_[\w-]{43})$/m;
const pageAt = (service: Running) => new Page(Number(new URL(service.url).port));

it('the first start prints a link that signs in once; two processes share sessions, and end them together', async () => {
  const dataFolder = newDataFolder();
  const service = await launch({
    ROWHOUSE_DATA: dataFolder,
    ROWHOUSE_WORKERS: '2',
    ROWHOUSE_LOG_LEVEL: 'debug',
  });
  const [, url, link = ''] = linkForm.exec(service.output()) ?? [];
  expect(url, service.output()).toBe(service.url);
  const page = pageAt(service);
  expect((await page.signIn({ link })).body).toMatchObject({
    scope: 'account',
    account: { name: 'default' },
  });
  expect(outcome(await pageAt(service).signIn({ link }))).toEqual([400, 'invalid_code']);

  const made = await page.call('POST', '/projects', { body: { name: 'Shop' } });
  expect(made.status, made.text).toBe(201);
  const issue = { name: 'k', scopes: ['query:read'] };
  const { body } = await page.call('POST', '/projects/shop/keys', { body: issue });
  const scoped = pageAt(service);
  expect((await scoped.signIn({ api_key: body.api_key })).status).toBe(201);
  // Each request has its own connection, and the processes take them in turn.
  const statuses = async () =>
    Promise.all(Array.from({ length: 12 }, async () => (await scoped.call('GET', '/projects')).status));
  expect(await statuses()).toEqual(Array(12).fill(200));
  expect((await page.call('DELETE', `/projects/shop/keys/${body.key.id}`)).status).toBe(200);
  expect(await statuses()).toEqual(Array(12).fill(401));

  const [cookie, token] = [page.cookie ?? '', page.token ?? ''];
  expect((await page.call('DELETE', '/console/session')).status).toBe(200);
  expect(await service.stop()).toBe(0);
  const log = readFileSync(path.join(dataFolder, 'logs', 'rowhouse.log'), 'utf8');
  expect(log).toContain('/console/session');
  for (const secret of [link, token, cookie.split('=')[1] ?? '', body.api_key])
    expect([secret.length > 40, log.includes(secret)]).toEqual([true, false]);
});

it('a later start prints the address alone where its output is not a terminal, and none without the console', async () => {
  const dataFolder = await usedDataFolder();
  const service = await launch({ ROWHOUSE_DATA: dataFolder });
  expect(service.output()).toContain(`  console      ${service.url}/console/\n`);
  expect(service.output()).not.toContain('rh_link_');
  await service.stop();
  const off = await launch({ ROWHOUSE_DATA: dataFolder, ROWHOUSE_CONSOLE: 'off' });
  expect(off.output()).not.toContain('console');
  expect((await fetch(`${off.url}/console/`)).status).toBe(404);
});

/** Runs a program at a terminal of its own. */
const script = '/usr/bin/script';
it.runIf(process.platform === 'linux' && existsSync(script))(
  'at a terminal every start prints a link',
  {
    timeout: 180_000,
  },
  async () => {
    const ROWHOUSE_DATA = await usedDataFolder();
    const port = await freePort();
    const env = {
      ...process.env,
      ROWHOUSE_DATA,
      ROWHOUSE_PORT: String(port),
      ROWHOUSE_BACKUP_URL: 'off',
      ROWHOUSE_SPARES: '0',
    };
    const child = spawn(script, ['-qefc', `exec ${process.execPath} ${main}`, '/dev/null'], {
      env,
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const exited = once(child, 'exit');
    onTestFinished(async () => {
      // Ctrl-C at the terminal.
      child.stdin.write('\x03');
      await exited;
    });
    let output = '';
    child.stdout.on('data', (piece: Buffer) => {
      output = (output + piece).replaceAll('\r', '');
    });
    await until('the service is ready', async () => /^ready$/m.test(output), 120_000);
    const [, , link = ''] = linkForm.exec(output) ?? [];
    expect((await new Page(port).signIn({ link })).status, output).toBe(201);
  },
);
