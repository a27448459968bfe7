// What limit_mb does not count, and what bounds it instead. Temporary files, notifications and logs are in hogs.test.ts.
import { expect, it } from 'vitest';
import { databaseOf } from '../src/engine/provision.ts';
import { sql } from '../src/postgres/sql.ts';
import { asAdmin, useHouse } from './helpers.ts';

const house = useHouse();

const newProject = async (limitMb: number) => {
  const { body } = await house.call('POST', '/projects', { body: { name: 'Beyond', limit_mb: limitMb } });
  const { slug, id } = body.project;
  const run = (query: string, more: object = {}) =>
    house.call('POST', `/projects/${slug}/query`, { key: body.api_key, body: { query, ...more } });
  return { id, run };
};

it('a project has 100,000 tables, indexes, sequences and views at most', { timeout: 120_000 }, async () => {
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
    { ...house.service.deps.server.address, database: databaseOf(crowded.id) },
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

it('statements that write without end, and store nothing, fill no disk with WAL', {
  timeout: 240_000,
}, async () => {
  const [busy, neighbour] = [await newProject(8), await newProject(8)];
  expect((await busy.run('create sequence s')).status).toBe(200);
  const look = () =>
    asAdmin(async (admin) => {
      const [row] = await admin.query<{ written: number; kept: number; most: number }>(sql`
        select (pg_current_wal_lsn() - '0/0')::float8 as written, (select sum(size)::float8 from pg_ls_waldir()) as kept,
          pg_size_bytes(current_setting('max_wal_size'))::float8 as most`);
      return row as { written: number; kept: number; most: number };
    });
  const before = await look();
  const endless =
    'do $$ begin loop perform setval($s$s$s$, n) from generate_series(1, 1000) as n; end loop; end $$';
  let [largest, isDone] = [0, false];
  const write = async () => {
    while (!isDone) {
      const { body } = await busy.run(endless, { timeout_ms: 5_000 });
      expect(body.error.code).toBe('query_timeout');
    }
  };
  const watch = async () => {
    while (!isDone) {
      const { written, kept, most } = await look();
      largest = Math.max(largest, kept);
      isDone = written - before.written > 1.25 * most;
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  };
  await Promise.all([watch(), write(), write()]);
  // PostgreSQL takes it for a goal: the checkpoint that makes room takes its time.
  expect(largest).toBeLessThan(1.5 * Math.max(before.most, before.kept));
  expect((await neighbour.run('create table t (a int)')).status).toBe(200);
});
