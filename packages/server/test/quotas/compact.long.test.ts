import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { vacuumTables } from '../../src/quotas/reclaiming/compact.ts';
import { compactTables } from '../../src/quotas/reclaiming/compact-tables.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { openSecondProcess, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 2, connections: { budget: 20, share: 6 } });
const mb = 1024 * 1024;
type Project = { slug: string; id: string; key: string };

async function projectOf(limitMb = 512): Promise<Project> {
  const { body } = await rowhouse.call('POST', '/projects', { body: { name: 'Compact', limit_mb: limitMb } });
  return { slug: body.project.slug, id: body.project.id, key: body.api_key };
}

async function run(project: Project, ...queries: string[]) {
  let last: Awaited<ReturnType<typeof rowhouse.call>> | undefined;
  for (const query of queries) {
    last = await rowhouse.call('POST', `/projects/${project.slug}/query`, {
      key: project.key,
      body: { query },
    });
    expect([query, last.status, last.body.error]).toEqual([query, 200, undefined]);
  }
  return last?.body;
}

const start = (project: Project, key = project.key) =>
  rowhouse.call('POST', `/projects/${project.slug}/compact`, { key });
const look = (project: Project) =>
  rowhouse.call('GET', `/projects/${project.slug}/compact`, { key: project.key });

async function compact(project: Project) {
  const { status, body } = await start(project);
  expect([status, body.compaction.status]).toEqual([202, 'running']);
  return until(
    'the compaction is over',
    async () => {
      const { compaction } = (await look(project)).body;
      return compaction.status !== 'running' && compaction;
    },
    60_000,
  );
}

async function sizeMb(project: Project): Promise<number> {
  const [row] = await rowhouse.service.deps.server.maintenance.query<{ bytes: number }>(
    sql`select pg_database_size(${databaseOf(project.id)})::float8 as bytes`,
  );
  return (row?.bytes ?? 0) / mb;
}

const fill = (table: string, rows: number) =>
  `insert into ${table} select n, repeat(md5(n::text), 20) from generate_series(1, ${rows}) as n`;

/** Makes a table of which each page keeps one row in ten: VACUUM alone can give nothing back. */
const makeSparse = (table: string, rows: number) => [
  `create table ${table} (id int primary key, v text)`,
  fill(table, rows),
  `delete from ${table} where id % 10 <> 0`,
];

const countRows = async (project: Project, table = 't') =>
  (await run(project, `select count(*)::int as n from ${table}`))?.rows[0].n;

async function connect(project: Project): Promise<pg.Client> {
  const { body } = await rowhouse.call('GET', `/projects/${project.slug}/connection`);
  const client = new pg.Client({ connectionString: body.connection.url });
  await client.connect();
  return client;
}

describe('compacting', () => {
  it('frees the space of deleted rows and reports its result', async () => {
    const project = await projectOf();
    expect((await look(project)).body).toEqual({ ok: true, compaction: null });
    await run(project, ...makeSparse('t', 30_000));
    const before = await sizeMb(project);
    const compaction = await compact(project);
    expect(compaction).toMatchObject({
      status: 'done',
      current: null,
      error: null,
      skipped: [],
      skipped_count: 0,
    });
    expect(compaction.tables_done).toBe(compaction.tables_total);
    expect(compaction.freed_mb).toBeGreaterThan(15);
    expect(compaction.size_before_mb - compaction.size_mb).toBeCloseTo(compaction.freed_mb, 1);
    expect(Date.parse(compaction.finished_at)).toBeGreaterThanOrEqual(Date.parse(compaction.started_at));
    expect(before - (await sizeMb(project))).toBeGreaterThan(15);
    expect(await countRows(project)).toBe(3_000);
    // A table without waste is left as it is.
    const file = "select pg_relation_filenode('t')::int as f";
    const [kept] = (await run(project, file))?.rows ?? [];
    await compact(project);
    expect((await run(project, file))?.rows).toEqual([kept]);
  });

  it("needs the scope manage and the caller's own project", async () => {
    const project = await projectOf();
    const other = await projectOf();
    const issued = await rowhouse.call('POST', `/projects/${project.slug}/keys`, {
      body: { name: 'reader', scopes: ['query'] },
    });
    const key = issued.body.api_key;
    expect((await start(project, key)).body.error.code).toBe('forbidden');
    expect((await rowhouse.call('GET', `/projects/${project.slug}/compact`, { key })).status).toBe(403);
    expect((await start(project, other.key)).status).toBe(404);
    expect((await start(project, rowhouse.accountKey)).status).toBe(202);
  });

  it('covers every kind of table with any name, indexes, TOAST, large objects and users', async () => {
    const project = await projectOf();
    await run(
      project,
      'create schema "Sch""ema; drop table x"',
      ...makeSparse('"Sch""ema; drop table x"."ta\'b""le é"', 5_000),
      'create table part (id int, v text) partition by range (id)',
      'create table part_1 partition of part for values from (0) to (1000000)',
      fill('part', 5_000),
      'delete from part where id % 10 <> 0',
      'create materialized view mat as select n, repeat(md5(n::text), 20) as v from generate_series(1, 100) as n',
      'create table toasted (id int primary key, v text)',
      'alter table toasted alter v set storage external',
      'insert into toasted select n, repeat(md5(n::text), 400) from generate_series(1, 500) as n',
      'delete from toasted where id % 10 <> 0',
      `do $$ begin for n in 1..40 loop perform lo_from_bytea(n, decode(
         (select string_agg(md5(random()::text), '') from generate_series(1, 10000)), 'hex')); end loop; end $$`,
      'select lo_unlink(n) from generate_series(1, 40) as n where n % 5 <> 0',
    );
    const compaction = await compact(project);
    expect(compaction).toMatchObject({ status: 'done', skipped: [], error: null });
    expect(compaction.freed_mb).toBeGreaterThan(15);
    expect(await countRows(project, 'part')).toBe(500);
    expect(await countRows(project, 'pg_largeobject_metadata')).toBe(8);
  });

  it('runs once at a time per project; another process shows it, and reports one whose process died', async () => {
    const project = await projectOf();
    await run(
      project,
      ...makeSparse('t', 3_000),
      'create table flags (slow bool)',
      'insert into flags values (false)',
      `create function slow(v text) returns text immutable language plpgsql as $$ begin
         if (select slow from public.flags) then perform pg_sleep(0.01); end if; return v; end $$`,
      'create index on t (slow(v))',
      'update flags set slow = true',
    );
    const first = (await start(project)).body.compaction;
    const second = (await start(project)).body.compaction;
    expect(second.started_at).toBe(first.started_at);
    const other = await openSecondProcess(rowhouse);
    try {
      const path = `/projects/${project.slug}/compact`;
      const { body } = await other.call('GET', path, { key: project.key });
      expect(body.compaction.started_at).toBe(first.started_at);
      const third = await other.call('POST', path, { key: project.key });
      expect(third.body.compaction.started_at).toBe(first.started_at);
      await until(
        'it is over',
        async () => (await look(project)).body.compaction.status !== 'running',
        50_000,
      );
      // As a process leaves it that was killed.
      await rowhouse.service.deps.control.query(sql`
        update compactions set status = 'running', finished_at = null, alive_until = now() - interval '1 second'
        where project_id = ${project.id}`);
      const dead = await other.call('GET', path, { key: project.key });
      expect(dead.body.compaction).toMatchObject({ status: 'stopped', current: null });
      expect(dead.body.compaction.error).toContain('gone');
      // Stopped with its service: it is told so, and the service does not wait for it.
      await other.call('POST', path, { key: project.key });
    } finally {
      await other.stop();
    }
    expect((await look(project)).body.compaction.status).not.toBe('running');
    expect((await compact(project)).status).toBe('done');
  });

  it('skips a table whose copy does not fit into the limit', async () => {
    const project = await projectOf(100);
    await run(
      project,
      'create table t (id int primary key, v text)',
      fill('t', 60_000),
      'delete from t where id % 5 = 0',
    );
    // What lives takes 40 MB, and has to be there twice for a moment.
    await rowhouse.call('PATCH', `/projects/${project.slug}`, { body: { limit_mb: 41 } });
    const compaction = await compact(project);
    expect(compaction.status).toBe('done');
    expect(compaction.skipped).toEqual([{ table: 'public.t', reason: 'no_room_in_limit' }]);
    expect(await countRows(project)).toBe(48_000);
  });

  it('aborts a copy that grows larger than estimated', async () => {
    const project = await projectOf(100);
    const emptyMb = await sizeMb(project);
    await run(
      project,
      'create table t (id int, v text)',
      `insert into t select n, (select string_agg(md5(random()::text || n || m), '') from generate_series(1, 32) as m)
       from generate_series(1, 12000) as n`,
      'create index dense on t (v)',
      'delete from t where id % 2 = 0',
      // From now on each entry wants a page of its own.
      'alter index dense set (fillfactor = 10)',
    );
    const limitMb = Math.ceil((await sizeMb(project)) - emptyMb + 20);
    await rowhouse.call('PATCH', `/projects/${project.slug}`, { body: { limit_mb: limitMb } });
    const atMost = (await sizeMb(project)) + 21 + 32;
    let peak = 0;
    let isOver = false;
    const supervise = (async () => {
      for (; !isOver; await new Promise((resolve) => setTimeout(resolve, 10))) {
        peak = Math.max(peak, await sizeMb(project));
      }
    })();
    const compaction = await compact(project);
    isOver = true;
    await supervise;
    expect(compaction.skipped).toEqual([{ table: 'public.t', reason: 'no_room_in_limit' }]);
    expect(peak).toBeLessThan(atMost);
    expect(await countRows(project)).toBe(6_000);
  });
});

describe('compacting a hostile project', () => {
  it('skips a table whose index code raises an error with a giant message', async () => {
    const project = await projectOf();
    await run(
      project,
      'create table flags (bad text)',
      "insert into flags values ('')",
      `create function odd(v text) returns text immutable language plpgsql as $$
       declare how text;
       begin
         execute 'select bad from public.flags' into how;
         if how = 'raise' then raise exception '%', repeat('x', 100000000); end if;
         return substr(v, 1, 10);
       end $$`,
    );
    await run(
      project,
      ...makeSparse('t', 10_000),
      'create index on t (odd(v))',
      ...makeSparse('other', 10_000),
      "update flags set bad = 'raise'",
    );
    const compaction = await compact(project);
    expect(compaction.status).toBe('done');
    expect(compaction.skipped.map(({ table }: { table: string }) => table)).toEqual(['public.t']);
    // The others were done all the same.
    expect(compaction.freed_mb).toBeGreaterThan(5);
  });

  it('skips a table whose index code never ends and ignores cancels', async () => {
    const project = await projectOf();
    await run(
      project,
      'create table flags (bad bool)',
      'insert into flags values (false)',
      `create function odd(v text) returns text immutable language plpgsql as $$ begin
         while (select bad from public.flags) loop
           begin perform pg_sleep(10); exception when query_canceled then null; end;
         end loop;
         return substr(v, 1, 10); end $$`,
      ...makeSparse('t', 10_000),
      'create index on t (odd(v))',
      ...makeSparse('other', 8_000),
      'update flags set bad = true',
    );
    const progress = { total: 0, done: 0, current: null, bytes: 0, skipped: [], skippedCount: 0 };
    const times = { vacuumMs: 20_000, analyzeMs: 300, rewriteMs: () => 5_000 };
    const login = {
      id: project.id,
      serverId: rowhouse.service.deps.server.id,
      passwordVersion: 1,
      accountId: null,
    };
    await compactTables(rowhouse.service.deps, login, progress, new AbortController().signal, times);
    expect(progress.skipped).toEqual([{ table: 'public.t', reason: 'too_slow' }]);
    expect(progress.done).toBe(progress.total);
    expect((await run(project, 'select pg_relation_size($$other$$) < 1000000 as small'))?.rows).toEqual([
      { small: true },
    ]);
  });

  it('skips a locked table soon, and other requests do not wait long for its lock', async () => {
    const project = await projectOf();
    await run(project, ...makeSparse('t', 10_000));
    const client = await connect(project);
    try {
      await client.query('begin');
      await client.query('select count(*) from t');
      const working = compact(project);
      // A reader that comes while the copy waits for the lock waits with it, but not longer.
      for (let n = 0; n < 10; n++) {
        await run(project, 'select count(*) from t');
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
      expect((await working).skipped).toEqual([{ table: 'public.t', reason: 'locked' }]);
    } finally {
      await client.end();
    }
    expect((await compact(project)).skipped).toEqual([]);
  });

  it('does not enlarge a project with very many small tables', async () => {
    const project = await projectOf();
    await run(
      project,
      `do $$ begin for n in 1..1500 loop execute format('create table t%s (id int primary key)', n);
       execute format('insert into t%s values (1)', n); end loop; end $$`,
    );
    const { status, size_before_mb: before, size_mb: after } = await compact(project);
    expect(status).toBe('done');
    expect(after).toBeLessThan(before + 1);
  });

  it('copes with tables that are dropped while it runs', async () => {
    const project = await projectOf();
    const each = (first: number, last: number, statement: string) =>
      run(
        project,
        `do $$ begin for n in ${first}..${last} loop execute format('${statement}', n); end loop; end $$`,
      );
    await each(
      1,
      40,
      'create table t%s as select n, repeat(md5(n::text), 20) as v from generate_series(1, 2000) as n',
    );
    await each(1, 40, 'delete from t%s');
    const working = compact(project);
    await each(30, 40, 'drop table t%s');
    const compaction = await working;
    expect(compaction.status).toBe('done');
    expect(compaction.tables_total).toBeGreaterThan(29);
    expect(compaction.tables_done).toBe(compaction.tables_total);
    for (const { reason } of compaction.skipped) expect(['gone', 'locked']).toContain(reason);
    expect(compaction.freed_mb).toBeGreaterThan(20);
  });
});

describe('vacuumTables', () => {
  it("frees the space of a rolled-back insert and skips tables that are gone, locked or not the project's", async () => {
    const project = await projectOf();
    await run(
      project,
      'create table t (id int primary key, v text)',
      'create table u (id int primary key, v text)',
    );
    const { server } = rowhouse.service.deps;
    const login = {
      id: project.id,
      serverId: rowhouse.service.deps.server.id,
      passwordVersion: 1,
      accountId: null,
    };
    const client = await connect(project);
    try {
      const oids = (await client.query("select 't'::regclass::oid::int as t, 'u'::regclass::oid::int as u"))
        .rows[0];
      for (const table of ['t', 'u']) {
        await client.query('begin');
        await client.query(fill(table, 10_000));
        await client.query('rollback');
      }
      const before = await sizeMb(project);
      await client.query('begin');
      await client.query('lock table u');
      await vacuumTables({ server }, login, [oids.t, oids.u, 4_000_000_000, 1262], { timeoutMs: 10_000 });
      expect(before - (await sizeMb(project))).toBeGreaterThan(5);
      await client.query('commit');
      const between = await sizeMb(project);
      await vacuumTables({ server }, login, 'all', { timeoutMs: 10_000 });
      expect(between - (await sizeMb(project))).toBeGreaterThan(5);
    } finally {
      await client.end();
    }
  });
});
