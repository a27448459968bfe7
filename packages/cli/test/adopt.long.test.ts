// rowhouse servers adopt: an installation goes from the embedded PostgreSQL to another server and back, with interruptions.
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { readMark } from '../../server/src/programs/adoption/mark.ts';
import { adopt, type Place } from '../../server/src/programs/adoption/move-control.ts';
import { undoAdoption } from '../../server/src/programs/adoption/undo.ts';
import { startEmbedded } from '../../server/src/servers/embedded/embedded.ts';
import { masterKeyFile, readKeyFile } from '../../server/src/servers/embedded/master-key.ts';
import { type Answer, until } from '../../server/test/support/helpers.ts';
import {
  launch,
  newAccountKey,
  newDataFolder,
  type Running,
  usedDataFolder,
} from '../../server/test/support/process.ts';

const bin = path.resolve(import.meta.dirname, '../bin/rowhouse.mjs');

it('an installation is adopted by a server, and comes back, with everything', {
  timeout: 600_000,
}, async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-adopter-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));
  const ignored = { say: () => {}, onEvent: () => {} };
  const start = (dataFolder: string, masterKey: Buffer) =>
    startEmbedded({ dataFolder, masterKey, connections: 40, reserveBytes: 0, ...ignored });
  const second = await start(folder, randomBytes(32));
  onTestFinished(second.stop);
  const { user, password, port } = second.address;
  const url = `postgres://${user}:${encodeURIComponent(password)}@127.0.0.1:${port}/postgres`;
  const account = newAccountKey();
  const data = await usedDataFolder();
  const file = readKeyFile(masterKeyFile(data));
  if (!('key' in file)) throw new Error('The data folder has no master key.');
  const masterKey = file.key;

  const run = (address: string, ...args: string[]) => {
    const clean = Object.entries(process.env).filter(([name]) => !name.startsWith('ROWHOUSE_'));
    const more = { ROWHOUSE_URL: address, ROWHOUSE_API_KEY: account, ROWHOUSE_SERVER_URL: url };
    const { status, stdout, stderr } = spawnSync(process.execPath, [bin, 'servers', 'adopt', ...args], {
      encoding: 'utf8',
      env: { ...Object.fromEntries(clean), ...more, ROWHOUSE_DATA: data },
    });
    expect(stdout + stderr).not.toContain(password);
    expect(stdout + stderr).not.toContain(masterKey.toString('hex'));
    return { status, text: stderr + stdout };
  };
  const startHere = () => launch({ ROWHOUSE_DATA: data, ROWHOUSE_ACCOUNT_KEY: account });
  /** What a crash at a step leaves. */
  const interrupt = async (step: string, act: (place: Place) => Promise<unknown>) => {
    const embedded = await start(data, masterKey);
    const place: Place = {
      dataFolder: data,
      masterKey,
      embedded: embedded.address,
      controlDatabase: 'rowhouse',
      progress: () => {},
      signal: new AbortController().signal,
      onStep: async (reached) => {
        if (reached === step) throw new Error(`interrupted: ${step}`);
      },
    };
    await expect(act(place)).rejects.toThrow(`interrupted: ${step}`);
    await embedded.stop();
  };
  const finish = (place: Place) =>
    adopt(place, { server: 'db2', controlThere: 'rowhouse', dropDeleted: true });

  let service = await startHere();
  const ask = async (slug: string, query: string, key = account) => {
    const { status, body } = await service.call('POST', `/projects/${slug}/query`, { key, body: { query } });
    expect([query, status, body.error]).toEqual([query, 200, undefined]);
    return body.rows;
  };
  const request = async (method: string, target: string, headers: Record<string, string>, body?: object) => {
    const response = await fetch(`${service.url}/api/dbaas/v2/projects/${target}`, {
      method,
      headers: { connection: 'close', ...headers, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as Answer['body'] };
  };
  const create = async (name: string, through: Running = service) => {
    const { status, body } = await through.call('POST', '/projects', { body: { name } });
    expect(status, JSON.stringify(body)).toBe(201);
    return body.api_key as string;
  };

  // An installation with everything that must go with it.
  const key = await create('Tea');
  await create('Quiet');
  await create('Gone');
  await ask('tea', 'create table notes (id int primary key, body text)');
  const keyed = { 'x-api-key': key, 'idempotency-key': 'only-once' };
  expect((await request('POST', 'tea/tables/notes', keyed, { id: 1, body: 'first' })).status).toBe(201);
  const login = { email: 'ada@example.com', password: 'correct horse battery' };
  const signup = await request('POST', 'tea/auth/signup', { 'x-api-key': key }, login);
  expect(signup.status, JSON.stringify(signup.body)).toBe(201);
  const token = signup.body.session.access_token;
  const scoped = await service.call('POST', '/projects/tea/keys', {
    body: { name: 'reader', scopes: ['query:read'] },
  });
  expect(scoped.status, JSON.stringify(scoped.body)).toBe(201);
  await until('the size is noted', async () => {
    const { body } = await service.call('GET', '/projects/tea/usage');
    return body.history?.length > 0;
  });
  expect((await service.call('DELETE', '/projects/gone')).status).toBe(200);
  const checkAll = async () => {
    expect(await ask('tea', 'select body from notes', key)).toEqual([{ body: 'first' }]);
    expect(await ask('tea', 'select body from notes', scoped.body.api_key)).toEqual([{ body: 'first' }]);
    const me = await request('GET', 'tea/auth/user', { 'x-api-key': key, authorization: `Bearer ${token}` });
    expect(me.body.user?.email, JSON.stringify(me.body)).toBe(login.email);
    const again = await request('POST', 'tea/tables/notes', keyed, { id: 1, body: 'first' });
    expect([again.status, again.body.error]).toEqual([201, undefined]);
    const { body: usage } = await service.call('GET', '/projects/tea/usage');
    expect(usage.history.length).toBeGreaterThan(0);
    expect(await ask('tea', 'select inet_server_port() as port')).toEqual([{ port }]);
  };
  const listed = async () => (await service.call('GET', '/api/dbaas/v2/servers')).body.servers;

  // While the service runs, the projects move.
  const moved = run(service.url, 'db2');
  expect(moved, moved.text).toMatchObject({ status: 0 });
  expect(moved.text).toMatch(/Projects moved: 2\.[\s\S]*rowhouse servers adopt db2 --finish[\s\S]*deleted/);
  expect(run(service.url, 'db2').text).toContain('Projects moved: 0.');
  expect(run(service.url, 'db2', '--finish').text).toContain('already running');
  await checkAll();
  expect(await service.stop()).toBe(0);

  // The last step: refused without a word about the deleted project, and interrupted in the middle.
  const refused = run(service.url, 'db2', '--finish');
  expect([refused.status, refused.text]).toEqual([
    1,
    expect.stringMatching(/restored: gone\.\n→ .*--drop-deleted/),
  ]);
  expect(run(service.url, 'db3', '--finish', '--drop-deleted').text).toContain('no server "db3"');
  await interrupt('mark', finish);
  await interrupt('rename', finish);
  expect(readMark(data)?.state).toBe('adopting');
  service = await startHere();
  expect(service.output()).toMatch(/^ready$/m);
  expect(readMark(data)).toBe(null);
  await checkAll();
  expect(await service.stop()).toBe(0);
  const finished = run(service.url, 'db2', '--finish', '--drop-deleted');
  expect(finished, finished.text).toMatchObject({ status: 0 });
  expect(finished.text).toMatch(/rows +\d+, compared/);

  // A start in the folder by mistake is refused. The service starts on another machine with the settings of the file alone.
  service = await startHere();
  expect(service.output()).toMatch(/is on the server "db2" .*\n→ .*ROWHOUSE_DATABASE_URL.*--undo/);
  const settings = path.join(data, 'adopted.env');
  expect(statSync(settings).mode & 0o077).toBe(0);
  const lines = readFileSync(settings, 'utf8').trim().split('\n');
  const env = Object.fromEntries(
    lines.map((line) => [line.split('=')[0], line.slice(line.indexOf('=') + 1)]),
  );
  const startThere = () =>
    launch({ ...env, ROWHOUSE_DATA: newDataFolder(), ROWHOUSE_ACCOUNT_KEY: account } as Record<
      string,
      string
    >);
  service = await startThere();
  expect(service.output()).toMatch(/^ready$/m);
  await checkAll();
  expect(await listed()).toMatchObject([{ name: 'db2', state: 'ready' }]);
  await create('Later');
  await ask('later', 'create table t as select 7 as n');
  expect((await service.call('POST', '/projects/gone/restore')).status).toBe(404);
  expect(run(service.url, 'db2').text).toContain('The first server is "db2"');
  expect(run(service.url, 'db2', '--undo').text).toContain('in use');
  expect(await service.stop()).toBe(0);

  // The way back, interrupted as well.
  await interrupt('draft', undoAdoption);
  await interrupt('end', undoAdoption);
  const undone = run(service.url, 'db2', '--undo');
  expect(undone, undone.text).toMatchObject({ status: 0 });
  service = await startHere();
  expect(service.output()).toMatch(/^ready$/m);
  await checkAll();
  expect(await ask('later', 'select n from t')).toEqual([{ n: 7 }]);
  expect(await listed()).toMatchObject([{ name: 'embedded' }, { name: 'db2' }]);
  const restored = await service.call('POST', '/projects/gone/restore');
  expect(restored.status, JSON.stringify(restored.body)).toBe(200);
  expect(await service.call('DELETE', '/projects/gone')).toMatchObject({ status: 200 });
  expect(run(service.url, 'db2').status).toBe(0);
  expect(await service.stop()).toBe(0);

  // Interrupted after the moment that counts: the server has the installation, and a repetition says so.
  await interrupt('end', finish);
  expect(readMark(data)?.state).toBe('adopting');
  service = await startHere();
  expect(service.output()).toContain('is on the server "db2"');
  expect(run(service.url, 'db2', '--finish').text).toContain('copied before');
  service = await startThere();
  await checkAll();
  expect(await service.stop()).toBe(0);
});
