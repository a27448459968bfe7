// What limit_mb does not count, and what bounds it instead. Temporary files, notifications and logs are in resource-hogs.long.alone.test.ts.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { startEmbedded } from '../../src/servers/embedded/embedded.ts';
import { asAdmin, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();
const mb = 1024 * 1024;

const newProject = async (limitMb: number) => {
  const { body } = await rowhouse.call('POST', '/projects', { body: { name: 'Beyond', limit_mb: limitMb } });
  const { slug, id } = body.project;
  const run = (query: string, more: object = {}) =>
    rowhouse.call('POST', `/projects/${slug}/query`, { key: body.api_key, body: { query, ...more } });
  return { id, run };
};

it('a project can have at most 100,000 tables, indexes, sequences and views', async () => {
  const [crowded, neighbour] = [await newProject(512), await newProject(8)];
  expect((await crowded.run('create table mine (a int)')).status).toBe(200);
  // As if so many views had been made: each takes the service a millisecond, which is too long for a test.
  await asAdmin(
    async (admin) => {
      await admin.query(
        sql.script(`do $$ declare others text; begin
        set local allow_system_table_mods = on;
        select string_agg(attname, ', ' order by attnum) into others from pg_attribute
        where attrelid = 'pg_class'::regclass and attnum > 0 and attname not in ('oid', 'relname');
        execute format('insert into pg_class (oid, relname, %1$s)
          select (1000000000 + n)::oid, ''crowd_'' || n, %1$s
          from pg_class, generate_series(1, 100000) as n where relname = ''pg_views''', others);
      end $$`),
      );
    },
    { ...rowhouse.service.deps.server.address, database: databaseOf(crowded.id) },
  );
  for (const query of [
    'create table one_more (a int)',
    'create view v as select 1',
    'create index on mine (a)',
  ]) {
    const { status, body } = await crowded.run(query);
    expect([status, body.error.sql?.state], query).toEqual([400, '54000']);
    expect(body.error.message).toContain('100000 tables, indexes, sequences and views');
  }
  expect((await crowded.run('insert into mine values (1)')).status).toBe(200);
  expect((await crowded.run('drop table mine')).status).toBe(200);
  expect((await neighbour.run('create table t (a int)')).status).toBe(200);
});

it('statements that write endlessly and store nothing do not fill the disk with WAL', async () => {
  // A server of its own: the bound is its max_wal_size, which is 1 GB as we ship it and would take a minute to pass.
  const dataFolder = mkdtempSync(path.join(tmpdir(), 'rowhouse-wal-'));
  const masterKey = randomBytes(32);
  const more = { max_wal_size: '64MB', min_wal_size: '32MB' };
  const engine = await startEmbedded({
    connections: 100,
    dataFolder,
    masterKey,
    say: () => {},
    onEvent: () => {},
    more,
  });
  onTestFinished(async () => {
    await engine.stop();
    rmSync(dataFolder, { recursive: true, force: true });
  });
  const look = () =>
    asAdmin(async (admin) => {
      const [row] = await admin.query<{ written: number; kept: number }>(sql`
        select (pg_current_wal_lsn() - '0/0')::float8 as written, (select sum(size)::float8 from pg_ls_waldir()) as kept`);
      return row as { written: number; kept: number };
    }, engine.address);
  await asAdmin((admin) => admin.query(sql`create sequence s`), engine.address);
  const before = await look();
  let [largest, isDone] = [0, false];
  const write = async () => {
    const some = sql.script(
      'do $$ begin for i in 1..500 loop perform setval($s$s$s$, n) from generate_series(1, 1000) as n; end loop; end $$',
    );
    while (!isDone) await asAdmin((admin) => admin.query(some), engine.address);
  };
  const watch = async () => {
    while (!isDone) {
      const { written, kept } = await look();
      largest = Math.max(largest, kept);
      isDone = written - before.written > 512 * mb;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  };
  await Promise.all([watch(), write()]);
  // PostgreSQL takes it for a goal: the checkpoint that makes room takes its time.
  expect(largest).toBeLessThan(256 * mb);
});
