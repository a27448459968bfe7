// Statements that ignore cancel, terminate and a cut connection: they are ended all the same, and nobody else notices. The last
// resort, a restart of PostgreSQL, loses nothing that was acknowledged.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Address } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf, roleOf } from '../../src/servers/databases/names.ts';
import { databaseExists } from '../../src/servers/databases/provision.ts';
import { clusterFolderOf, startEmbedded } from '../../src/servers/embedded/embedded.ts';
import { derivePassword } from '../../src/servers/role-passwords.ts';
import { api, asAdmin, jobEnd, until } from '../support/helpers.ts';
import { upload } from '../support/importing.ts';
import { useOwnPostgres } from '../support/own-postgres.ts';

type Project = { slug: string; id: string; key: string };

const xml = `('<a>' || repeat('<b/>', 6000) || '</a>')::xml`;
const counts = `//*[count(//*[count(//*)>0])>0]`;
const statements: Record<string, string> = {
  xpath: `select xpath('count(${counts})', ${xml})`,
  xmltable: `select count(*) from xmltable('${counts}' passing (${xml}) columns a text path '.')`,
  'strings that are made and thrown away': `select xpath('count(//b[string-length(string(/))>0])', ('<a>' || repeat('<c>' || repeat('x', 9000000) || '</c>', 5) || repeat('<b/>', 3000) || '</a>')::xml)`,
  like: `select repeat('a', 4000000) like '%' || repeat('a', 2000000) || 'b%'`,
  'position of bytes': `select position(decode(repeat('00', 2000000) || '01', 'hex') in decode(repeat('00', 6000000), 'hex'))`,
  translate: `select length(translate(repeat('é', 9000000), (select string_agg(chr(1000 + x % 50000), '') from generate_series(1, 600000) x), ''))`,
  'arrays that contain': `select a @> a from (select array_agg(x::text) as a from generate_series(1, 400000) as x) as v`,
  'a distance of paths': `select p <-> p from (select ('[' || string_agg('(' || x || ',' || x % 7 || ')', ',') || ']')::path as p from generate_series(1, 150000) as x) as v`,
  'an error that is caught': `do $$ begin loop begin perform repeat('a', 4000000) like '%' || repeat('a', 2000000) || 'b%'; exception when others then null; end; end loop; end $$`,
  'a change': `insert into kept select 1 where repeat('a', 4000000) like '%' || repeat('a', 2000000) || 'b%'`,
};

async function connect({ id }: Project, masterKey: Buffer, { host, port }: Address): Promise<pg.Client> {
  const user = roleOf(id);
  const client = new pg.Client({
    host,
    port,
    user,
    password: derivePassword(masterKey, user),
    database: databaseOf(id),
  });
  client.on('error', () => {});
  await client.connect();
  onTestFinished(() => client.end().catch(() => {}));
  return client;
}

function use(own: ReturnType<typeof useOwnPostgres>) {
  const admin = <R>(statement: ReturnType<typeof sql>) =>
    asAdmin((database) => database.query<R>(statement), own.engine.address);
  return {
    query: ({ slug, key }: Project, text: string, more: object = {}) =>
      own.rowhouse.call('POST', `/projects/${slug}/query`, { key, body: { query: text, ...more } }),
    startedAt: async () =>
      (await admin<{ at: string }>(sql`select pg_postmaster_start_time()::text as at`))[0],
    backendsOf: async ({ id }: Project) =>
      (
        await admin<{ pid: number }>(sql`
          select pid from pg_stat_activity where datname = ${databaseOf(id)} and state = 'active'`)
      ).map(({ pid }) => pid),
  };
}

describe('a statement without interrupt checks', () => {
  const own = useOwnPostgres();
  const { query, startedAt, backendsOf } = use(own);

  it.each(Object.entries(statements))('ends: %s', { timeout: 60_000 }, async (_what, text) => {
    const [culprit, neighbour] = [await own.rowhouse.project('Culprit'), await own.rowhouse.project('Calm')];
    expect((await query(culprit, 'create table kept (n int)')).status).toBe(200);
    const before = await startedAt();
    const { status, body } = await query(culprit, text, { timeout_ms: 1_000 });
    expect([503, 504], JSON.stringify(body)).toContain(status);
    await until('its backend has ended', async () => (await backendsOf(culprit)).length === 0, 30_000);
    expect(await startedAt()).toEqual(before);
    for (const project of [culprit, neighbour])
      expect((await query(project, 'select 1 as one')).body.rows).toEqual([{ one: 1 }]);
    expect((await query(culprit, 'select count(*)::int as n from kept')).body.rows).toEqual([{ n: 0 }]);
  });

  it('ends in the parallel workers of a statement', { timeout: 60_000 }, async () => {
    const culprit = await own.rowhouse.project('Parallel');
    const before = await startedAt();
    expect((await query(culprit, 'create table kept as select generate_series(1, 20000) as n')).status).toBe(
      200,
    );
    expect((await query(culprit, 'alter table kept set (parallel_workers = 2)')).status).toBe(200);
    const settings = {
      max_parallel_workers_per_gather: 2,
      min_parallel_table_scan_size: 0,
      parallel_setup_cost: 0,
      parallel_tuple_cost: 0,
      parallel_leader_participation: 'off',
    };
    const set = Object.entries(settings).map(([name, value]) => `set_config('${name}', '${value}', true)`);
    const slow = `repeat('a', 4000000 + n) like '%' || repeat('a', 2000000) || 'b%'`;
    const asked = own.rowhouse.call('POST', `/projects/${culprit.slug}/batch`, {
      key: culprit.key,
      body: {
        statements: [`select ${set.join()}`, `select count(*) from kept where ${slow}`].map((text) => ({
          query: text,
        })),
        timeout_ms: 2_000,
      },
    });
    await until('workers run', async () => (await backendsOf(culprit)).length > 1);
    expect([503, 504]).toContain((await asked).status);
    await until('all have ended', async () => (await backendsOf(culprit)).length === 0, 30_000);
    expect(await startedAt()).toEqual(before);
  });

  it('ends in an import that is cancelled, and nothing is left of its project', {
    timeout: 120_000,
  }, async () => {
    const { rowhouse } = own;
    const before = await startedAt();
    const { body } = await upload(rowhouse, `${statements.like};\n`);
    await until('it runs', async () => (await backendsOf(body.project)).length === 1);
    await rowhouse.call('DELETE', `${api}/jobs/${body.job.id}`);
    expect((await jobEnd(rowhouse, body.job.id)).status).toBe('cancelled');
    await until(
      'its database is dropped',
      async () => !(await databaseExists(rowhouse.service.deps.server, body.project.id)),
      100_000,
    );
    expect(await startedAt()).toEqual(before);
  });

  it('ends in a direct session whose client has gone', { timeout: 120_000 }, async () => {
    const { rowhouse, engine } = own;
    const culprit = await rowhouse.project('Gone');
    const before = await startedAt();
    const direct = await connect(culprit, rowhouse.service.deps.masterKey, engine.address);
    direct.query(statements.like as string).catch(() => {});
    await until('it runs', async () => (await backendsOf(culprit)).length === 1);
    (direct as unknown as { connection: { stream: Socket } }).connection.stream.destroy();
    await until('its backend has ended', async () => (await backendsOf(culprit)).length === 0, 100_000);
    expect(await startedAt()).toEqual(before);
  });

  it('ends in a direct session of a project that is deleted, and its database is dropped', {
    timeout: 120_000,
  }, async () => {
    const { rowhouse, engine } = own;
    const culprit = await rowhouse.project('Deleted');
    const before = await startedAt();
    const direct = await connect(culprit, rowhouse.service.deps.masterKey, engine.address);
    const failed = direct.query(statements.like as string).catch((error: Error) => error);
    await until('it runs', async () => (await backendsOf(culprit)).length === 1);
    expect((await rowhouse.call('DELETE', `/projects/${culprit.slug}`)).status).toBe(200);
    await rowhouse.service.deps.control.query(sql`
      update projects set deleted_at = now() - interval '8 days' where id = ${culprit.id}`);
    await until(
      'its database is dropped',
      async () => !(await databaseExists(rowhouse.service.deps.server, culprit.id)),
      100_000,
    );
    expect(await failed).toBeInstanceOf(Error);
    expect(await startedAt()).toEqual(before);
  });
});

it('a shutdown ends statements without interrupt checks, and no recovery follows', {
  timeout: 60_000,
}, async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-shutdown-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));
  const engine = await startEmbedded({
    dataFolder: folder,
    masterKey: randomBytes(32),
    connections: 20,
    more: { fsync: 'off' },
    say: () => {},
    onEvent: () => {},
  });
  const role = 'p_shutdown';
  await asAdmin(
    (admin) => admin.query(sql`create role p_shutdown login password 'p_shutdown'`),
    engine.address,
  );
  const { host, port, database } = engine.address;
  const client = new pg.Client({ host, port, user: role, password: role, database });
  client.on('error', () => {});
  await client.connect();
  const failed = client.query(statements.like as string).catch((error: Error) => error);
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  const since = performance.now();
  await engine.stop();
  expect(performance.now() - since).toBeLessThan(30_000);
  expect(await failed).toBeInstanceOf(Error);
  // DB_SHUTDOWNED
  const state = readFileSync(path.join(clusterFolderOf(folder), 'global', 'pg_control')).readInt32LE(16);
  expect(state).toBe(1);
});

describe('a backend that does not even compute', () => {
  const own = useOwnPostgres({ restartAfterMs: 3_000 });
  const { query, startedAt, backendsOf } = use(own);

  it('is ended by a restart of PostgreSQL that loses nothing', { timeout: 120_000 }, async () => {
    const [culprit, neighbour] = [await own.rowhouse.project('Culprit'), await own.rowhouse.project('Calm')];
    expect((await query(neighbour, 'create table kept (n int)')).status).toBe(200);
    const before = await startedAt();
    const asked = query(culprit, 'select pg_sleep(60)', { timeout_ms: 1_500 });
    const [pid] = await until('it runs', async () => {
      const pids = await backendsOf(culprit);
      return pids.length === 1 && pids;
    });
    process.kill(pid as number, 'SIGSTOP');
    let isOver = false;
    const acknowledged: number[] = [];
    let failedSince = 0;
    let longestMs = 0;
    const writing = (async () => {
      for (let n = 0; !isOver; n++) {
        const { status } = await query(neighbour, 'insert into kept values ($1)', {
          params: [n],
          timeout_ms: 5_000,
        });
        if (status === 200) {
          acknowledged.push(n);
          if (failedSince > 0) longestMs = Math.max(longestMs, performance.now() - failedSince);
          failedSince = 0;
        } else if (failedSince === 0) failedSince = performance.now();
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    })();
    expect((await asked).status).not.toBe(200);
    await until(
      'PostgreSQL was restarted',
      async () => (await startedAt().catch(() => before))?.at !== before?.at,
      60_000,
    );
    await until('it serves again', async () => (await query(neighbour, 'select 1')).status === 200);
    await new Promise((resolve) => setTimeout(resolve, 500));
    isOver = true;
    await writing;
    const { body } = await query(neighbour, 'select n from kept');
    const kept = new Set(body.rows.map(({ n }: { n: number }) => n));
    expect(acknowledged.filter((n) => !kept.has(n))).toEqual([]);
    console.log(`writes failed for ${Math.round(longestMs)} ms`);
    expect(longestMs).toBeLessThan(30_000);
  });
});
