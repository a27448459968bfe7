// rowhouse master-key rotate: what stays valid and what does not, and that it can be killed at any moment.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, expect, it, onTestFinished } from 'vitest';
import { startEmbedded } from '../../server/src/servers/embedded/embedded.ts';
import { until } from '../../server/test/support/helpers.ts';
import {
  cleanUp,
  launch,
  newAccountKey,
  newDataFolder,
  type Running,
  usedDataFolder,
} from '../../server/test/support/process.ts';
import { bare, bin, rowhouse } from './installation.ts';

afterAll(cleanUp);
const keyIn = (folder: string) => path.join(folder, 'master.key');
const nextIn = (folder: string) => path.join(folder, 'master.key.next');
const read = (file: string) => readFileSync(file, 'utf8');
const rotate = (folder: string, env: Record<string, string> = {}) =>
  rowhouse(['master-key', 'rotate', '--yes', '--data', folder], env);

/** One project, with every way in which somebody can reach it. */
async function makeProject(service: Running) {
  const created = await service.call('POST', '/projects', { body: { name: 'Shop', slug: 'shop' } });
  const key: string = created.body.api_key;
  await service.call('POST', '/projects/shop/query', {
    key,
    body: { query: 'create table t as select 7 as n' },
  });
  const user = { email: 'ada@example.com', password: 'correct horse' };
  const signedUp = await service.call('POST', '/projects/shop/auth/signup', { key, body: user });
  expect(signedUp.status).toBe(201);
  // Makes the role that reads the project for an export.
  expect((await service.call('GET', '/projects/shop/export?format=sql', { key })).status).toBe(200);
  const { body } = await service.call('GET', '/projects/shop/connection', { key });
  const repeat = async () => {
    const response = await fetch(`${service.url}/api/dbaas/v2/projects/shop/query`, {
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/json', 'idempotency-key': 'once' },
      body: JSON.stringify({ query: 'insert into t values (8)' }),
    });
    return ((await response.json()) as { error?: { code: string } }).error?.code ?? 'ok';
  };
  expect([await repeat(), await repeat()]).toEqual(['ok', 'ok']);
  const { access_token: accessToken, refresh_token: refreshToken } = signedUp.body.session;
  return { key, user, accessToken, refreshToken, url: body.connection.url as string };
}

/** The first full one begins by itself, and another one cannot begin meanwhile. */
async function backUp(env: Record<string, string>): Promise<void> {
  const isDone = async () => rowhouse(['backup', 'now'], env).status === 0;
  await until('there is a backup', isDone, 120_000);
}

async function connects(url: string): Promise<boolean> {
  const client = new pg.Client(url);
  client.on('error', () => {});
  try {
    await client.connect();
    return (await client.query('select n from t where n = 7')).rows.length === 1;
  } catch (error) {
    expect((error as { code: string }).code).toBe('28P01');
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}

it('can be killed at any moment, and then replaces the key; data, keys and tokens stay, passwords do not', {
  timeout: 900_000,
  tags: 'long',
}, async () => {
  const folder = await usedDataFolder();
  const storage = mkdtempSync(path.join(tmpdir(), 'rowhouse-rotate-'));
  onTestFinished(() => rmSync(storage, { recursive: true, force: true }));
  const accountKey = newAccountKey();
  const settings = {
    ROWHOUSE_DATA: folder,
    ROWHOUSE_ACCOUNT_KEY: accountKey,
    ROWHOUSE_BACKUP_URL: `file:${storage}`,
  };
  const service = await launch(settings);
  const before = await makeProject(service);
  const env = { ROWHOUSE_URL: service.url, ROWHOUSE_API_KEY: accountKey };
  await backUp(env);
  expect(await connects(before.url)).toBe(true);
  const running = rotate(folder);
  expect([running.status === 0, running.stderr]).toEqual([false, expect.stringContaining('already running')]);
  expect(existsSync(nextIn(folder))).toBe(false);
  expect(await service.stop()).toBe(0);
  const old = read(keyIn(folder));

  let isComplete = false;
  let interruptions = 0;
  for (let ms = 150; !isComplete; ms = Math.round(ms * 1.4)) {
    const child = spawn(process.execPath, [bin, 'master-key', 'rotate', '--yes', '--data', folder], {
      env: { ...bare, ROWHOUSE_BACKUP_URL: settings.ROWHOUSE_BACKUP_URL },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    const exited = once(child, 'exit');
    const ended = await Promise.race([exited, sleep(ms, null)]);
    isComplete = ended !== null && ended[0] === 0;
    if (ended === null) process.kill(-(child.pid ?? 0), 'SIGKILL');
    await exited;
    // Killed after its last step, before it could say so: a further call would replace the new key.
    isComplete ||= !existsSync(nextIn(folder)) && read(keyIn(folder)) !== old;
    if (!isComplete && existsSync(nextIn(folder))) {
      interruptions++;
      const refused = await launch(settings);
      expect((await refused.exited).code).toBe(1);
      expect(refused.output()).toContain('rowhouse master-key rotate');
    }
  }
  console.log(`Killed ${interruptions} times after it had begun.`);
  const renewed = read(keyIn(folder));
  expect(renewed).not.toBe(old);
  const kept = readdirSync(folder).filter((name) => name.startsWith('master.key.'));
  expect(kept.filter((name) => name !== 'master.key.check')).toEqual([expect.stringContaining('.replaced-')]);
  expect(read(path.join(folder, kept.find((name) => name.includes('.replaced-')) ?? ''))).toBe(old);

  // Killed after the last transaction, and before each of the files was replaced.
  for (const present of [old, renewed]) {
    writeFileSync(keyIn(folder), present, { mode: 0o600 });
    writeFileSync(nextIn(folder), renewed, { mode: 0o600 });
    const resumed = rotate(folder);
    expect([resumed.status, resumed.stdout]).toEqual([0, expect.stringContaining('rotation is complete')]);
    expect([read(keyIn(folder)), existsSync(nextIn(folder))]).toEqual([renewed, false]);
  }

  const wrong = await launch({ ...settings, ROWHOUSE_MASTER_KEY: old.trim() });
  expect((await wrong.exited).code).toBe(1);
  expect(wrong.output()).toContain('The master key does not belong to this data');

  const again = await launch(settings);
  const call = (method: string, target: string, body?: object) =>
    again.call(method, `/projects/shop${target}`, { key: before.key, ...(body && { body }) });
  expect((await call('POST', '/query', { query: 'select n from t order by n' })).body.rows).toEqual([
    { n: 7 },
    { n: 8 },
  ]);
  // Before anything has used them: the old passwords open nothing.
  expect(await connects(before.url)).toBe(false);
  const { body } = await call('GET', '/connection');
  expect(await connects(body.connection.url)).toBe(true);
  expect((await call('GET', '/export?format=sql')).status).toBe(200);
  // On a busy machine, a password can take longer than PostgreSQL may be silent.
  await until(
    'the user signs in',
    async () => (await call('POST', '/auth/signin', before.user)).status === 200,
  );
  expect((await call('POST', '/auth/refresh', { refresh_token: before.refreshToken })).status).toBe(401);
  const user = await fetch(`${again.url}/api/dbaas/v2/projects/shop/auth/user`, {
    headers: { 'x-api-key': before.key, authorization: `Bearer ${before.accessToken}` },
  });
  expect(user.status).toBe(200);
  const repeated = await fetch(`${again.url}/api/dbaas/v2/projects/shop/query`, {
    method: 'POST',
    headers: { 'x-api-key': before.key, 'content-type': 'application/json', 'idempotency-key': 'once' },
    body: JSON.stringify({ query: 'insert into t values (8)' }),
  });
  expect(((await repeated.json()) as { error: { code: string } }).error.code).toBe('outcome_unknown');
  expect((await call('POST', '/query', { query: 'select count(*)::int as c from t' })).body.rows).toEqual([
    { c: 2 },
  ]);

  // Backups go on under the new key, and can be restored with it.
  const after = { ROWHOUSE_URL: again.url, ROWHOUSE_API_KEY: accountKey };
  await backUp(after);
  expect(await again.stop()).toBe(0);
  const copy = path.join(newDataFolder(), 'copy');
  const restored = rowhouse(['restore', '--from', `file:${storage}`, '--data', copy], {
    ROWHOUSE_MASTER_KEY: renewed.trim(),
  });
  expect(restored.status, restored.stderr).toBe(0);
  expect(restored.stdout).toMatch(/projects +1/);
  const [aside = ''] = readdirSync(storage).filter((name) => name.startsWith('before-'));
  const earlier = rowhouse(['restore', '--from', `file:${storage}/${aside}`, '--data', `${copy}-2`], {
    ROWHOUSE_MASTER_KEY: old.trim(),
  });
  expect(earlier.status, earlier.stderr).toBe(0);
});

it('with the key in the environment, it says that the environment has to change', async () => {
  const folder = await usedDataFolder();
  const old = read(keyIn(folder)).trim();
  rmSync(keyIn(folder));
  const env = { ROWHOUSE_MASTER_KEY: old };
  // Killed before the transaction: the same new key is used again.
  const begun = 'ef'.repeat(32);
  writeFileSync(nextIn(folder), begun, { mode: 0o600 });
  const { status, stdout, stderr } = rotate(folder, env);
  expect([status, stderr]).toEqual([0, expect.stringContaining('Set ROWHOUSE_MASTER_KEY to the new key')]);
  expect(stdout).toContain('master.key');
  expect(read(keyIn(folder)).trim()).toBe(begun);
  const refused = rotate(folder, env);
  expect(refused.status).not.toBe(0);
  expect(refused.stderr).toContain('does not belong to this data');
  expect(existsSync(nextIn(folder))).toBe(false);
});

it('without a confirmation, or without data, nothing happens', () => {
  const folder = newDataFolder();
  expect(rowhouse(['master-key', 'rotate', '--data', folder]).stderr).toContain('--yes');
  const none = rotate(folder);
  expect([none.status === 0, none.stderr]).toEqual([false, expect.stringContaining('no data yet')]);
  expect(readdirSync(folder)).toEqual([]);
});

it('replaces the passwords on further servers too, and changes nothing while one of them does not answer', async () => {
  const place = newDataFolder();
  const startSecond = () =>
    startEmbedded({
      dataFolder: place,
      masterKey: Buffer.alloc(32, 7),
      connections: 40,
      reserveBytes: 0,
      say: () => {},
      onEvent: () => {},
    });
  let second = await startSecond();
  onTestFinished(() => second.stop());
  const { user, password, port } = second.address;
  const [folder, key] = [await usedDataFolder(), newAccountKey()];
  const settings = { ROWHOUSE_DATA: folder, ROWHOUSE_ACCOUNT_KEY: key };
  const service = await launch(settings);
  const added = rowhouse(['servers', 'add', 'db2'], {
    ROWHOUSE_URL: service.url,
    ROWHOUSE_API_KEY: key,
    ROWHOUSE_SERVER_URL: `postgres://${user}:${encodeURIComponent(password)}@127.0.0.1:${port}/postgres`,
  });
  expect(added.status, added.stderr).toBe(0);
  const created = await service.call('POST', '/projects', {
    body: { name: 'Far', slug: 'far', server: 'db2' },
  });
  const projectKey: string = created.body.api_key;
  const ask = (at: Running, query: string) =>
    at.call('POST', '/projects/far/query', { key: projectKey, body: { query } });
  expect((await ask(service, 'create table t as select 7 as n')).status).toBe(200);
  const { body } = await service.call('GET', '/projects/far/connection', { key: projectKey });
  const { url } = body.connection;
  expect(await connects(url)).toBe(true);
  expect(await service.stop()).toBe(0);

  await second.stop();
  const refused = rotate(folder);
  expect([refused.status === 0, refused.stderr]).toEqual([
    false,
    expect.stringContaining('"db2" does not answer'),
  ]);
  expect(existsSync(nextIn(folder))).toBe(false);
  second = await startSecond();
  expect(second.address.port).toBe(port);
  expect(await connects(url)).toBe(true);

  const done = rotate(folder);
  expect([done.status, done.stdout]).toEqual([0, expect.stringContaining('on 2 servers')]);
  // Before the service has used the project.
  expect(await connects(url)).toBe(false);
  const again = await launch(settings);
  await until('the server is open', async () => (await ask(again, 'select n from t')).status === 200, 60_000);
  const after = await again.call('GET', '/projects/far/connection', { key: projectKey });
  expect(await connects(after.body.connection.url)).toBe(true);
  expect(await again.stop()).toBe(0);
});
