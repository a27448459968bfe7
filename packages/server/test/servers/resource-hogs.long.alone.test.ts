import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { asAdmin, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 2, connections: { budget: 20, share: 6 } });
type Project = { slug: string; id: string; key: string };
let hog: Project;
let neighbour: Project;
let startedAt: unknown;
let isOver = false;
let asking: Promise<void>;
const failures: unknown[] = [];
let slowestMs = 0;
let rssBefore = 0;
const openSessions = () => rowhouse.service.deps.query.sessions.counts().open;

const run = (project: Project, query: string, more: object = {}) =>
  rowhouse.call('POST', `/projects/${project.slug}/query`, { key: project.key, body: { query, ...more } });
const postgresStart = () =>
  asAdmin(async (admin) => (await admin.query(sql`select pg_postmaster_start_time()::text as at`))[0]);

beforeAll(async () => {
  hog = await rowhouse.project('Hog');
  neighbour = await rowhouse.project('Neighbour');
  await run(neighbour, 'create table calm (id int primary key, v text)');
  await run(neighbour, "insert into calm select n, 'v' from generate_series(1, 100) as n");
  startedAt = await postgresStart();
  rssBefore = process.memoryUsage.rss();
  // The neighbour works all the while: every one of its statements must succeed.
  asking = (async () => {
    for (let n = 0; !isOver; n++) {
      const began = performance.now();
      const { status, body } = await run(neighbour, 'select v from calm where id = $1', {
        params: [(n % 100) + 1],
      });
      if (status !== 200 || body.row_count !== 1) failures.push(body);
      const written = await run(neighbour, 'update calm set v = $1 where id = 1', { params: [String(n)] });
      if (written.status !== 200) failures.push(written.body);
      slowestMs = Math.max(slowestMs, performance.now() - began);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  })();
});

afterAll(async () => {
  isOver = true;
  await asking;
});

/** After each: same PostgreSQL, the neighbour noticed nothing, and the project itself works. */
async function allIsWell(): Promise<void> {
  expect(failures).toEqual([]);
  expect(await postgresStart()).toEqual(startedAt);
  expect((await run(hog, 'select 1 as fine')).body.rows).toEqual([{ fine: 1 }]);
}

describe('hostile statements', () => {
  it.each([
    ['memory by repeat', "select repeat('x', 1000000000)"],
    ['memory by array', 'do $$ declare a int[] := array[1]; begin loop a := a || a; end loop; end $$'],
    ['memory by string', "do $$ declare s text := 'x'; begin loop s := s || s; end loop; end $$"],
    [
      'sort memory',
      "select set_config('work_mem', '100GB', true), count(*) from (select md5(n::text) as m from generate_series(1, 3000000) as n order by 1) as s",
    ],
    [
      'temporary files',
      'select count(*) from (select a, b from generate_series(1, 30000) a, generate_series(1, 30000) b order by random()) as s',
    ],
    [
      'endless recursion',
      'with recursive r as (select 1 as n union all select n + 1 from r) select max(n) from r',
    ],
    [
      'a function that calls itself',
      'do $$ begin execute $f$create or replace function deep(n int) returns int language plpgsql as $b$ begin return deep(n + 1); end $b$$f$; perform deep(1); end $$',
    ],
    ['a cross join', 'select count(*) from pg_class a, pg_class b, pg_class c, pg_class d'],
    ['an evil regex', "select repeat('a', 40) || '!' ~ '^(a+)+$', repeat('a', 5000) ~ '(a?){2000}a{2000}'"],
    ['giant exceptions', "do $$ begin raise exception '%', repeat('x', 200000000); end $$"],
    [
      'giant notices',
      "do $$ begin for i in 1..50 loop raise notice '%', repeat('x', 5000000); end loop; end $$",
    ],
    [
      'a flood of log lines',
      "do $$ begin for i in 1..20000 loop begin perform 1/0; exception when others then raise log 'x'; end; end loop; end $$",
    ],
    [
      'a flood of notifications',
      "do $$ begin for i in 1..60000 loop perform pg_notify('c', repeat('x', 7000) || i); end loop; end $$",
    ],
    ['sleeping', 'select pg_sleep(1000)'],
    [
      'WAL messages',
      "select pg_logical_emit_message(false, 'a', repeat('x', 1000000)) from generate_series(1, 1000)",
    ],
    ['advisory locks', 'select pg_advisory_lock(n) from generate_series(1, 1000000) as n'],
  ])('a hostile statement (%s) hurts no neighbour', { timeout: 60_000 }, async (_what, query) => {
    const { status, body } = await run(hog, query, { timeout_ms: 3_000 });
    expect([200, 400, 403, 503, 504], JSON.stringify(body).slice(0, 300)).toContain(status);
    await allIsWell();
  });

  it('two hundred slow statements at once hurt no neighbour', async () => {
    const answers = await Promise.all(Array.from({ length: 200 }, () => run(hog, 'select pg_sleep(0.3)')));
    for (const { status } of answers) expect([200, 429]).toContain(status);
    expect(answers.some(({ status }) => status === 200)).toBe(true);
    await allIsWell();
  });

  it('texts that take long to parse hurt no neighbour', async () => {
    const long = Array(25_000).fill('1+1').join(',');
    // One is parsed after the other, and the wait counts.
    const hogging = Array.from({ length: 12 }, (_, n) =>
      run(hog, `select ${n}, ${long}`, { timeout_ms: 55_000 }),
    );
    for (let n = 0; n < 20; n++) {
      const began = performance.now();
      const { status, body } = await run(neighbour, `select ${n} as never_seen_before`);
      expect([status, body.rows]).toEqual([200, [{ never_seen_before: n }]]);
      expect(performance.now() - began).toBeLessThan(1_000);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    // At most 1,664 columns, says PostgreSQL; the parser itself must not have given up on any.
    for (const { body } of await Promise.all(hogging)) expect(body.error.sql.state).toBe('54011');
    await allIsWell();
  });

  it('many results with types of the project hurt no neighbour', async () => {
    for (const project of [hog, neighbour]) await run(project, 'create table typed as select 1 as a');
    const hogging = Array.from({ length: 60 }, () => run(hog, 'select typed from typed'));
    const asked = Array.from({ length: 10 }, () => run(neighbour, 'select typed from typed'));
    for (const { body } of await Promise.all([...asked, ...hogging]))
      expect(body.rows).toEqual([{ typed: { a: 1 } }]);
    await allIsWell();
  });

  it('a filled NOTIFY queue is emptied again', async () => {
    const flood = `do $$ begin for i in 1..60000 loop perform pg_notify('c', repeat('x', 7000) || i); end loop; raise exception 'x'; end $$`;
    for (const text of [flood, flood.replace("raise exception 'x'; ", '')])
      await run(hog, text, { timeout_ms: 30_000 });
    await until('it is short', async () => {
      const { body } = await run(neighbour, 'select pg_notification_queue_usage() < 0.01 as "isShort"');
      return body.rows[0].isShort;
    });
    expect((await run(neighbour, 'notify calm')).status).toBe(200);
    await allIsWell();
  });

  it('twenty thousand tables hurt no neighbour', async () => {
    for (let from = 1; from <= 20_000; from += 4_000) {
      const make = `do $$ begin for i in ${from}..${from + 3999} loop execute format('create table many_%s (id int)', i); end loop; end $$`;
      expect((await run(hog, make, { timeout_ms: 100_000 })).status).toBe(200);
    }
    const counted = await run(hog, "select count(*)::int as n from pg_tables where tablename like 'many%'");
    expect(counted.body.rows).toEqual([{ n: 20_000 }]);
    await allIsWell();
    // All at once they need more locks than a server has to give to one.
    const all = `do $$ declare t text; begin for t in select tablename from pg_tables where tablename like 'many%' loop execute format('drop table %I', t); end loop; end $$`;
    expect([200, 400, 503]).toContain((await run(hog, all, { timeout_ms: 100_000 })).status);
    await allIsWell();
  });

  it('locks of an abandoned request are released', async () => {
    await run(hog, 'create table fought (id int)');
    expect(
      (
        await run(hog, 'with l as (insert into fought values (1) returning id) select pg_sleep(60) from l', {
          timeout_ms: 300,
        })
      ).status,
    ).toBe(504);
    expect((await run(hog, 'alter table fought add column v int', { timeout_ms: 10_000 })).status).toBe(200);
    expect((await run(hog, 'select * from fought')).body.rows).toEqual([]);
    await allIsWell();
  });
});

describe('after all hostile statements', () => {
  it('nothing is left open, memory is near where it was, and the neighbour answers as before', async () => {
    await until('connections are idle', async () => {
      const { open, idle, waiting } = rowhouse.service.deps.query.sessions.counts();
      // The neighbour asks all the while: one may be at work.
      return open - idle <= 1 && waiting === 0;
    });
    expect(openSessions()).toBeLessThanOrEqual(12);
    const backends = await asAdmin((admin) =>
      admin.query<{ n: number }>(sql`
        select count(*)::int as n from pg_stat_activity where datname in (${`p_${hog.id}`}, ${`p_${neighbour.id}`})`),
    );
    expect(backends[0]?.n).toBeLessThanOrEqual(openSessions() + 1);
    expect(process.memoryUsage.rss() - rssBefore).toBeLessThan(400 * 1024 * 1024);
    slowestMs = 0;
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(slowestMs).toBeGreaterThan(0);
    expect(slowestMs).toBeLessThan(1_000);
  });
});

describe("escapes from the project's database", () => {
  it.each<[string, () => string]>([
    ['reset role in a DO', () => "do $$ begin execute 'reset role'; execute 'set role postgres'; end $$"],
    ['session authorization', () => "do $$ begin execute 'set session authorization rowhouse'; end $$"],
    ['becoming superuser', () => 'alter role current_user superuser'],
    ['renaming itself', () => `alter role p_${hog.id} rename to p_evil`],
    ['its database', () => `alter database p_${hog.id} connection limit 0`],
    ["a neighbour's database", () => `alter database p_${neighbour.id} connection limit 0`],
    ["a neighbour's role", () => `set local role p_${neighbour.id}`],
    ['files', () => "select pg_read_file('/etc/passwd')"],
    ['a file by COPY', () => "copy (select 1) to '/tmp/rowhouse-evil'"],
    ['programs', () => "copy (select 1) to program 'id'"],
    ['C functions', () => "create function c() returns int language c as 'libc', 'getpid'"],
    ['internal functions', () => "create function i() returns int language internal as 'pg_backend_pid'"],
    ['pltcl', () => 'create extension pltcl'],
    ['untrusted Python', () => 'create extension plpython3u'],
    ['dblink', () => 'create extension dblink'],
    ['a foreign server', () => 'create extension postgres_fdw'],
    [
      'event triggers',
      () => "create event trigger e on ddl_command_start execute function pg_catalog.event_trigger_in('')",
    ],
    ['large objects from files', () => "select lo_import('/etc/passwd')"],
    ['server settings', () => "alter system set fsync = 'off'"],
    [
      'ending neighbours',
      () =>
        'select pg_terminate_backend(pid) from pg_stat_activity where usename <> current_user and usename is not null limit 1',
    ],
    ['replication', () => "select pg_create_physical_replication_slot('x')"],
    ['a subscription', () => "create subscription s connection 'host=127.0.0.1' publication p"],
    ['loading libraries', () => "load 'auto_explain'"],
    ['session_preload', () => "select set_config('session_preload_libraries', 'x', false)"],
  ])('an escape by %s is refused', async (_what, query) => {
    const { status } = await run(hog, query());
    expect([400, 403]).toContain(status);
    await allIsWell();
  });
});
