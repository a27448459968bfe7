// Ways around limit_mb that were tried: by a project's own code where it is run by others, by swallowing what stops it, by
// doing at the commit what is looked for before it.
import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { asAdmin, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();
const mb = 1024 * 1024;

const newProject = async (limitMb: number) => {
  const { body } = await rowhouse.call('POST', '/projects', { body: { name: 'Attack', limit_mb: limitMb } });
  const { slug, id } = body.project;
  const [row] = await rowhouse.service.deps.control.query<{ empty: number }>(
    sql`select empty_bytes::float8 as empty from projects where id = ${id}`,
  );
  const call = (method: 'GET' | 'POST', path: string, given?: object) =>
    rowhouse.call(method, `/projects/${slug}${path}`, { key: body.api_key, ...(given && { body: given }) });
  const run = (query: string, more: object = {}) => call('POST', '/query', { query, ...more });
  const storedMb = async () => {
    const [size] = await asAdmin((admin) =>
      admin.query<{ bytes: number }>(sql`select pg_database_size(${databaseOf(id)})::float8 as bytes`),
    );
    return ((size?.bytes ?? 0) - (row?.empty ?? 0)) / mb;
  };
  return {
    id,
    call,
    run,
    storedMb,
    all: async (...queries: string[]) => {
      for (const query of queries) {
        const { status, body: answer } = await run(query);
        expect(status, `${query}: ${JSON.stringify(answer)}`).toBe(200);
      }
    },
    holds: () => until(`it holds ${limitMb} MB`, async () => (await storedMb()) <= limitMb),
  };
};

let neighbour: Awaited<ReturnType<typeof newProject>>;
beforeAll(async () => {
  neighbour = await newProject(8);
  await neighbour.all('create table t (a int)');
});
const isFine = () => neighbour.all('insert into t values (1)');

const sink = ['create unlogged table sink (v text)', 'alter table sink alter v set storage plain'];

describe('code of the project that maintenance runs', () => {
  it('in an index writes nothing while its table is analysed, vacuumed or compacted', async () => {
    const project = await newProject(8);
    await project.all(
      ...sink,
      'create table t (id int)',
      `create function w(n int) returns int language plpgsql as
        $$ begin insert into public.sink select repeat('x', 2000) from pg_catalog.generate_series(1, 200); return n; end $$`,
      'create function f(n int) returns int language plpgsql immutable as $$ begin return n; end $$',
      'create index on t (f(id))',
      'insert into t select generate_series(1, 50000)',
      'delete from t where id > 300',
      `create or replace function f(n int) returns int language plpgsql immutable as
        $$ declare r int; begin select public.w(n) into r; return n; end $$`,
    );
    for (const query of ['analyze t', 'vacuum analyze t', 'vacuum full t', 'reindex table t', 'analyze'])
      await project.run(query);
    expect((await project.call('POST', '/compact')).status).toBeLessThan(300);
    await until('it is compacted', async () => {
      const { body } = await project.call('GET', '/compact');
      return body.compaction.status !== 'running';
    });
    expect((await project.run('select count(*) as n from sink')).body.rows).toEqual([{ n: 0 }]);
    await project.holds();
    // Without such a function all of them do their work.
    await project.all(
      'create or replace function f(n int) returns int language sql immutable as $$ select n $$',
    );
    await project.all('analyze t', 'vacuum full t', 'vacuum t');
    await isFine();
  });

  it('cannot defer growth until after the check before the commit', async () => {
    const project = await newProject(8);
    await project.all(
      ...sink,
      ...['create table a (n int)', 'create table b (n int)'],
      `create function ta() returns trigger language plpgsql as
        $$ begin set constraints all deferred; insert into b values (new.n); return null; end $$`,
      `create function tb() returns trigger language plpgsql as
        $$ begin insert into sink select repeat('x', 7000) from generate_series(1, new.n); return null; end $$`,
      'create constraint trigger x after insert on a deferrable initially deferred for each row execute function ta()',
      'create constraint trigger y after insert on b deferrable initially deferred for each row execute function tb()',
    );
    for (const n of [350, 900, 5000, 20000])
      expect((await project.run(`insert into a values (${n})`)).status).toBeGreaterThanOrEqual(400);
    expect((await project.run('select count(*) as n from sink')).body.rows).toEqual([{ n: 0 }]);
    await project.holds();
    await isFine();
  });
});

it('a view that replaces a table and writes is noticed', async () => {
  const project = await newProject(8);
  await project.all(
    ...sink,
    'create table t (a int)',
    `create function w() returns setof int language plpgsql as
      $$ begin insert into sink select repeat('x', 7000) from generate_series(1, 10000); return next 1; end $$`,
    `create function swap() returns int language plpgsql as
      $$ begin drop table t; create view t as select a from w() as a; return 1; end $$`,
  );
  // Known to be plain by now.
  for (let n = 0; n < 5; n++) {
    await project.all('select * from t');
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  await project.all('select swap()');
  for (let n = 0; n < 3; n++) await project.run('select * from t');
  expect((await project.run('select count(*) as n from sink')).body.rows).toEqual([{ n: 0 }]);
  await project.holds();
  await isFine();
});

describe('a statement that is stopped at the limit', () => {
  it('and catches the cancel as an error is terminated', async () => {
    const project = await newProject(8);
    await project.all(...sink);
    const { status, body } = await project.run(
      `do $$ declare stop timestamptz := clock_timestamp() + interval '5s'; begin
        while clock_timestamp() < stop loop
          begin insert into sink select repeat('x', 7000) from generate_series(1, 20000);
          exception when query_canceled then null; end;
        end loop; end $$`,
    );
    expect([status, body.error.code]).toEqual([507, 'project_full']);
    await project.holds();
    expect((await project.run('select count(*) as n from sink')).body.rows).toEqual([{ n: 0 }]);
    await isFine();
  });

  it('after it committed a part is told that this part stays, within the limit', async () => {
    const project = await newProject(64);
    await project.all(
      ...sink,
      'create table log (at timestamptz default clock_timestamp())',
      `create procedure fill() language plpgsql as $$ begin
        insert into log default values;
        commit;
        for i in 1..2000 loop
          begin insert into sink select repeat('x', 7000) from generate_series(1, 500);
          exception when query_canceled then null; end;
          commit;
        end loop; end $$`,
    );
    const { status, body } = await project.run('call fill()', { timeout_ms: 60_000 });
    expect([status, body.error.code]).toEqual([507, 'project_full']);
    expect(body.error.message).toContain('Everything that it had already committed remains');
    expect((await project.run('select count(*) as n from log')).body.rows).toEqual([{ n: 1 }]);
    await project.holds();
    await isFine();
  });
});

describe('a full project', () => {
  it('does not wait for a writer of another table', async () => {
    const project = await newProject(8);
    await project.all(
      ...['create table t (a int)', 'create table u (a int)', 'create table filler (a int, b text)'],
      'insert into u select generate_series(1, 100)',
    );
    await project.run(`insert into filler select n, repeat('x', 1000) from generate_series(1, 7000) as n`);
    await project.call('POST', '/query', {
      query: `insert into filler select n, repeat('x', 1000) from generate_series(1, 3000) as n`,
    });
    const held = project.call('POST', '/batch', {
      statements: [{ query: 'do $$ begin lock table t; end $$' }, { query: 'select pg_sleep(8)' }],
    });
    await new Promise((resolve) => setTimeout(resolve, 500));
    const before = performance.now();
    await project.all('select count(*) from u', 'delete from u where a < 10', 'truncate u');
    expect(performance.now() - before).toBeLessThan(6_000);
    await held;
    await isFine();
  });

  it('is emptied by many requests at once without a deadlock', async () => {
    const project = await newProject(8);
    const tables = Array.from({ length: 6 }, (_, n) => `t${n}`);
    for (const table of tables) await project.all(`create table ${table} (a int, b text)`);
    for (const table of tables)
      await project.run(
        `insert into ${table} select n, repeat('x', 1000) from generate_series(1, 1400) as n`,
      );
    const answers = await Promise.all(
      Array.from({ length: 24 }, (_, n) => project.run(`truncate ${tables[n % tables.length]}`)),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(24).fill(200));
  });

  it('accepts rows in an indexed table once others are deleted, within its limit', async () => {
    for (const limitMb of [16, 24]) {
      const project = await newProject(limitMb);
      await project.all(
        'create table t (n int, v text)',
        'alter table t alter v set storage plain',
        'create index on t (n)',
      );
      for (let refused = 0; refused < 6; ) {
        const { status } = await project.run(
          `insert into t select n, repeat('x', 1000) from generate_series(1, 300) as n`,
        );
        if (status !== 200) refused++;
      }
      await project.holds();
      await project.all('delete from t', `insert into t values (1, 'a')`);
    }
  });

  it('does not grow by statements that are refused again and again', async () => {
    const project = await newProject(8);
    await project.all('create table t (n int)');
    await project.run('insert into t select generate_series(1, 200000)');
    const noise = (n: number) =>
      Array.from({ length: 20_000 }, (_, i) =>
        Math.sin(n * 20_000 + i)
          .toString(36)
          .slice(3),
      ).join('');
    for (let n = 0; n < 12; n++) {
      await project.run(`comment on table t is '${noise(n).slice(0, 200_000)}'`);
      await project.run(
        `do $$ begin for i in 1..5 loop execute format('create function f_%s_${n}() returns int language plpgsql as %L', i,
          'begin return 1; end /*' || (select string_agg(md5(random()::text), '') from generate_series(1, 10000)) || '*/'); end loop; end $$`,
      );
    }
    expect(await project.storedMb()).toBeLessThan(8 + 32);
    await project.all('truncate t');
    await until(
      'it takes rows again',
      async () => (await project.run('insert into t values (1)')).status === 200,
    );
    await isFine();
  });

  it('accepts writes again under load that never pauses', async () => {
    const project = await newProject(8);
    await project.all('create table t (a int, b text)');
    await project.run(`insert into t select n, repeat('x', 1000) from generate_series(1, 20000) as n`);
    const { writerQueue: turns } = rowhouse.service.deps.query.admission;
    expect(turns.isClosed(project.id)).toBe(true);
    let isOver = false;
    const write = async () => {
      while (!isOver) await project.run(`insert into t select 1, pg_sleep(0.1)::text`);
    };
    const writers = Promise.all(Array.from({ length: 8 }, write));
    await until('the door is open', async () => !turns.isClosed(project.id));
    isOver = true;
    await writers;
  });
});

it('holds users that are created at the same moment to the limit together', async () => {
  const project = await newProject(8);
  const data = {
    note: Array.from({ length: 5_000 }, (_, n) => Math.sin(n).toString(36).slice(2))
      .join('')
      .slice(0, 60_000),
  };
  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, n) =>
      project.call('POST', '/auth/users', { email: `u${n}@example.com`, data }),
    ),
  );
  expect(answers.filter(({ status }) => status === 507).length).toBeGreaterThan(0);
  expect(await project.storedMb()).toBeLessThanOrEqual(8);
  await isFine();
});
