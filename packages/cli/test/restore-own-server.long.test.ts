// rowhouse restore of an installation whose first server was not embedded: its copy becomes the embedded one.
import { randomBytes } from 'node:crypto';
import { readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { openDatabase } from '../../server/src/postgres/admin/database.ts';
import { sql } from '../../server/src/postgres/sql.ts';
import { startEmbedded } from '../../server/src/servers/embedded/embedded.ts';
import { newFolder, rowhouse, start } from './installation.ts';

type Body = {
  api_key?: string;
  backups?: unknown[];
  rows?: Record<string, unknown>[];
  servers?: { name: string; state: string }[];
  error?: { code: string; message: string };
};

/** A PostgreSQL whose superuser has another name, and a role for the service that may replicate and is no superuser. */
async function startOwn(): Promise<{ url: string; stop: () => Promise<void> }> {
  const engine = await startEmbedded({
    dataFolder: newFolder(),
    masterKey: randomBytes(32),
    connections: 40,
    reserveBytes: 0,
    say: () => {},
    onEvent: () => {},
    more: { default_text_search_config: 'pg_catalog.german' },
  });
  let isStopped = false;
  const stop = async () => {
    if (!isStopped) await engine.stop();
    isStopped = true;
  };
  onTestFinished(stop);
  const database = openDatabase(engine.address, { max: 1 });
  await database.query(sql`create role other superuser login password 'secret'`);
  await database.query(sql`create role app createdb createrole replication login password 'secret'`);
  await database.query(sql`grant pg_signal_backend, pg_monitor to app`);
  await database.end();
  const { port } = engine.address;
  const other = openDatabase({ ...engine.address, user: 'other', password: 'secret' }, { max: 1 });
  await other.query(sql`alter role rowhouse rename to postgres`);
  await other.end();
  return { url: `postgres://app:secret@127.0.0.1:${port}/postgres`, stop };
}

it('an installation on a server of its own comes back in a data folder, with that server under its name', {
  timeout: 600_000,
}, async () => {
  const own = await startOwn();
  const [first, second, repository] = [newFolder(), newFolder(), newFolder()];
  const live = await start(first, repository, { ROWHOUSE_DATABASE_URL: own.url });
  const call = async (url: string, key: string, target: string, body?: object) => {
    const response = await fetch(url + target, {
      method: body ? 'POST' : 'GET',
      headers: { 'x-api-key': key, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    });
    return (await response.json()) as Body;
  };
  const { api_key: key = '' } = await call(live.url, live.key, '/projects', { name: 'Shop', slug: 'shop' });
  const ask = async (url: string, query: string) => {
    const { rows, error } = await call(url, key, '/projects/shop/query', { query });
    expect(error).toBeUndefined();
    return rows;
  };
  while (((await call(live.url, live.key, '/backups')).backups ?? []).length === 0) await sleep(200);
  await ask(live.url, 'create table t (id int)');
  await ask(live.url, 'insert into t values (1)');
  await sleep(10);
  const [row] = (await ask(live.url, 'select clock_timestamp() as at')) ?? [];
  await sleep(10);
  await ask(live.url, 'insert into t values (2)');
  const { servers: before = [] } = await call(live.url, live.key, '/servers');
  await sleep(3_000);
  const masterKey = readFileSync(path.join(first, 'master.key'), 'utf8').trim();
  await live.stop();
  await own.stop();
  rmSync(first, { recursive: true, force: true });

  const from = ['--from', `file:${repository}`, '--data', second];
  const env = { ROWHOUSE_MASTER_KEY: masterKey };
  const refused = rowhouse(['restore', ...from], { ...env, ROWHOUSE_DATABASE_URL: own.url });
  expect([refused.status, refused.stderr]).toEqual([
    1,
    expect.stringContaining('ROWHOUSE_DATABASE_URL is set'),
  ]);
  const done = rowhouse(['restore', ...from, '--to', String(row?.at)], env);
  expect(done.status, done.stderr).toBe(0);
  expect(done.stdout).toContain('start the service without ROWHOUSE_DATABASE_URL');

  const restored = await start(second, newFolder());
  expect(await ask(restored.url, 'select id from t order by id')).toEqual([{ id: 1 }]);
  expect(await ask(restored.url, 'show default_text_search_config')).toEqual([
    { default_text_search_config: 'pg_catalog.german' },
  ]);
  await ask(restored.url, 'insert into t values (3)');
  const { servers: after = [] } = await call(restored.url, live.key, '/servers');
  expect(after.map(({ name, state }) => [name, state])).toEqual(
    before.map(({ name, state }) => [name, state]),
  );
  const made = await call(restored.url, live.key, '/projects', { name: 'New', slug: 'new' });
  expect(made.error).toBeUndefined();
  // It is backed up in turn, and the role of the old service cannot enter.
  while (((await call(restored.url, live.key, '/backups')).backups ?? []).length === 0) await sleep(200);
  await restored.stop();
  const again = await start(second, newFolder());
  expect(await ask(again.url, 'select id from t order by id')).toEqual([{ id: 1 }, { id: 3 }]);
});
