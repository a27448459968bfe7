// What a refused or interrupted statement leaves on disk is given back within seconds, whether anybody comes again or not.
import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { asAdmin, openSecondProcess, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();
const mb = 1024 * 1024;
type Project = { id: string; slug: string; key: string; empty: number };

const newProject = async (limitMb: number): Promise<Project> => {
  const { body } = await rowhouse.call('POST', '/projects', { body: { name: 'Back', limit_mb: limitMb } });
  const { slug, id } = body.project;
  const [row] = await rowhouse.service.deps.control.query<{ empty: number }>(
    sql`select empty_bytes::float8 as empty from projects where id = ${id}`,
  );
  return { id, slug, key: body.api_key, empty: row?.empty ?? 0 };
};
const run = ({ slug, key }: Project, query: string, more: object = {}) =>
  rowhouse.call('POST', `/projects/${slug}/query`, { key, body: { query, ...more } });
const all = async (project: Project, ...queries: string[]) => {
  for (const query of queries) {
    const { status, body } = await run(project, query);
    expect(status, `${query}: ${JSON.stringify(body)}`).toBe(200);
  }
};
/** By a look from outside, which wakes nobody. */
const look = ({ id, empty }: Project) =>
  asAdmin(async (admin) => {
    const [row] = await admin.query<{ bytes: number; busy: number }>(sql`
      select pg_database_size(${databaseOf(id)})::float8 as bytes,
             (select count(*)::int from pg_stat_activity
              where datname = ${databaseOf(id)} and state = 'active') as busy`);
    return { mb: ((row?.bytes ?? 0) - empty) / mb, isIdle: row?.busy === 0 };
  });
/** Nothing is sent meanwhile. The backend may have to finish what it writes first; then seconds are left. */
const isGivenBack = async (project: Project, toMb: number) => {
  await until('nothing runs', async () => (await look(project)).isIdle, 60_000);
  await until(`no more than ${toMb} MB`, async () => (await look(project)).mb <= toMb, 10_000);
  // And it stays so.
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  expect((await look(project)).mb).toBeLessThanOrEqual(toMb);
};

let neighbour: Project;
beforeAll(async () => {
  neighbour = await newProject(8);
  await all(neighbour, 'create table t (a int)');
});
const isFine = () => all(neighbour, 'insert into t values (1)');

const noise = (count: number) =>
  `(select string_agg(md5(n::text), '') from generate_series(1, ${count}) as n)::bytea`;
/** Written by one call, during which PostgreSQL checks for no interrupt: 64 MB and more. */
const oneObject = `lo_from_bytea(0, ${noise(2_000_000)})`;

describe('a large object that is refused', () => {
  const ways: [name: string, prepare: string[], query: string][] = [
    ['by lo_from_bytea', [], `select ${oneObject}`],
    ['by lo_put', [], `select lo_put(lo_create(0), 0, ${noise(2_000_000)})`],
    [
      'by lowrite',
      [],
      `do $$ declare f int := lo_open(lo_create(0), 131072); begin perform lowrite(f, ${noise(2_000_000)}); end $$`,
    ],
    [
      'by a function that catches what stops it',
      [
        `create function grow() returns int language plpgsql as $$ begin
           begin perform ${oneObject}; exception when others or query_canceled then null; end; return 1; end $$`,
      ],
      'select grow()',
    ],
    [
      'by a trigger',
      [
        'create table t (a int)',
        `create function grow() returns trigger language plpgsql as $$ begin perform ${oneObject}; return new; end $$`,
        'create trigger grow before insert on t for each row execute function grow()',
      ],
      'insert into t values (1)',
    ],
    [
      'many small ones',
      [],
      `select lo_from_bytea(0, decode(repeat(md5(n::text), 3000), 'hex')) from generate_series(1, 10000) as n`,
    ],
  ];
  it.each(ways)('(%s) gives its space back', async (_name, prepare, query) => {
    const project = await newProject(4);
    await all(project, ...prepare);
    const before = (await look(project)).mb;
    const { status, body } = await run(project, query, { timeout_ms: 60_000 });
    expect([status, body.error?.code]).toEqual([507, 'project_full']);
    await isGivenBack(project, Math.max(before, 0) + 0.5);
    await all(project, 'create table after (a int)', 'insert into after values (1)');
    await isFine();
  });

  it('(in a batch) gives its space back', async () => {
    const project = await newProject(4);
    const { status } = await rowhouse.call('POST', `/projects/${project.slug}/batch`, {
      key: project.key,
      body: { statements: [{ query: 'select 1' }, { query: `select ${oneObject}` }], timeout_ms: 60_000 },
    });
    expect(status).toBe(507);
    await isGivenBack(project, 0.5);
    await isFine();
  });

  it('(several at once) gives its space back', async () => {
    const project = await newProject(4);
    const answers = await Promise.all(
      Array.from({ length: 3 }, () => run(project, `select ${oneObject}`, { timeout_ms: 60_000 })),
    );
    for (const { status } of answers) expect([507, 504, 429]).toContain(status);
    await isGivenBack(project, 0.5);
    await isFine();
  });

  it('(by its deadline, during a write) gives its space back', async () => {
    // Far from its limit a project is not measured. What is interrupted there is reclaimed as well.
    const project = await newProject(2048);
    const { status } = await run(
      project,
      `do $$ declare v bytea := ${noise(1_000_000)}; begin loop perform lo_from_bytea(0, v); end loop; end $$`,
      { timeout_ms: 4_000 },
    );
    expect(status).toBe(504);
    await isGivenBack(project, 0.5);
    await isFine();
  });
});

describe('the space of other refused statements', () => {
  const ways: [name: string, prepare: string[], query: string][] = [
    [
      'in a table with indexes',
      ['create table t (a int primary key, b text)', 'create index on t (b)'],
      `insert into t select n, md5(n::text) from generate_series(1, 500000) as n`,
    ],
    [
      'out of line',
      ['create table t (b text)', 'alter table t alter b set storage external'],
      `insert into t select repeat('x', 100000) from generate_series(1, 2000)`,
    ],
    [
      'in a GIN index with a pending list',
      ['create table t (a int[])', 'create index on t using gin (a) with (gin_pending_list_limit = 65536)'],
      'insert into t select array[n, n + 1, n + 2] from generate_series(1, 200000) as n',
    ],
    [
      'in the catalog, by tables',
      [],
      `do $$ begin for i in 1..3000 loop execute format('create table t_%s (a int primary key)', i); end loop; end $$`,
    ],
    [
      'in the catalog, by temporary tables',
      [],
      `do $$ begin for i in 1..3000 loop execute format('create temp table t_%s (a int primary key)', i); end loop; end $$`,
    ],
    [
      'in the catalog, by functions',
      [],
      `do $$ begin for i in 1..3000 loop execute format('create function f_%s() returns text language sql as %L', i,
         'select ' || quote_literal((select string_agg(md5((i * n)::text), '') from generate_series(1, 100) as n))); end loop; end $$`,
    ],
    [
      'in an unlogged table',
      ['create unlogged table t (a int, b text)'],
      `insert into t select n, repeat('x', 500) from generate_series(1, 100000) as n`,
    ],
    [
      'in a materialized view',
      ['create materialized view v as select 1 as a'],
      `do $$ begin execute 'drop materialized view v';
         execute 'create materialized view v as select repeat(''x'', 500) from generate_series(1, 100000)'; end $$`,
    ],
  ];
  it.each(ways)('(%s) is given back', async (_name, prepare, query) => {
    const project = await newProject(4);
    await all(project, ...prepare);
    const before = (await look(project)).mb;
    const { status, body } = await run(project, query, { timeout_ms: 60_000 });
    expect([status, body.error?.code]).toEqual([507, 'project_full']);
    await isGivenBack(project, before + 1.5);
    await all(project, 'create table after (a int)', 'insert into after values (1)');
    await isFine();
  });
});

it('space left by a killed process is found and freed by another', async () => {
  const project = await newProject(4);
  await all(project, 'create table t (a int, b text)');
  // As if a process had died in the middle: rows that were never committed, and nobody who knows of them.
  await asAdmin(
    async (admin) => {
      await admin
        .query(
          sql.script(`do $$ begin
            insert into public.t select n, repeat('x', 500) from generate_series(1, 30000) as n;
            perform lo_from_bytea(0, ${noise(300_000)});
            raise 'undone'; end $$`),
        )
        .catch(() => {});
    },
    { ...rowhouse.service.deps.server.address, database: databaseOf(project.id) },
  );
  expect((await look(project)).mb).toBeGreaterThan(4);
  const other = await openSecondProcess(rowhouse, { background: true });
  try {
    await until('it holds its limit again', async () => (await look(project)).mb <= 4, 30_000);
  } finally {
    await other.stop();
  }
  await all(project, `insert into t values (1, 'x')`);
  await isFine();
});

it('a statement that came to the limit is told so, although the time of its second attempt ended first', async () => {
  const project = await newProject(4);
  await all(
    project,
    'create sequence attempts',
    'create table t (a int, b text)',
    'alter table t alter b set storage external',
    // A sequence remembers what was rolled back.
    `create function grow() returns int language plpgsql as $$ begin
      if nextval('attempts') > 1 then perform pg_sleep(60); end if;
      insert into t select n, repeat(md5(n::text), 200) from generate_series(1, 2000) as n; return 1; end $$`,
    // What is reclaimed after it may make room, so there is a second attempt.
    "insert into t select n, repeat('x', 5000) from generate_series(1, 200) as n",
    'delete from t',
  );
  const { status, body } = await run(project, 'select grow()', { timeout_ms: 6_000 });
  expect((await run(project, 'select last_value::int as n from attempts')).body.rows).toEqual([{ n: 2 }]);
  expect([status, body.error?.code], JSON.stringify(body)).toEqual([507, 'project_full']);
  expect((await run(project, 'select count(*)::int as n from t')).body.rows).toEqual([{ n: 0 }]);
  await isGivenBack(project, 0.5);
  await isFine();
});
