import { QueryResponse } from '@rowhouse/api';
import { Compile } from 'typebox/compile';
import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { asAdmin, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 2 });
let mine: { slug: string; id: string; key: string };
let neighbour: { slug: string; id: string; key: string };
beforeAll(async () => {
  mine = await rowhouse.project('Mine');
  neighbour = await rowhouse.project('Neighbour');
});

const run = (query: string, more: object = {}, project = mine) =>
  rowhouse.call('POST', `/projects/${project.slug}/query`, { key: project.key, body: { query, ...more } });
const rows = async (query: string, more: object = {}) => {
  const { status, body } = await run(query, more);
  expect(status, JSON.stringify(body)).toBe(200);
  return body.rows;
};
const code = async (query: string, more: object = {}) => {
  const { status, body } = await run(query, more);
  return [status, body.error?.code];
};

describe('an answer of /query', () => {
  it('has all documented fields', async () => {
    const { status, body } = await run("select 1 as one, 'a' as two union all select 2, null order by 1");
    expect(status).toBe(200);
    expect(Compile(QueryResponse).Check(body)).toBe(true);
    expect(body).toMatchObject({
      ok: true,
      columns: ['one', 'two'],
      rows: [
        { one: 1, two: 'a' },
        { one: 2, two: null },
      ],
      row_count: 2,
      types: ['int4', 'text'],
      command: 'SELECT',
      affected: 2,
      truncated: false,
    });
    expect(body.duration_ms).toBeGreaterThan(0);
  });

  it('gives repeated columns different names', async () => {
    const { body } = await run('select 1 as a, 2 as a, 3 as a_2, 4 as a');
    expect(body.columns).toEqual(['a', 'a_3', 'a_2', 'a_4']);
    expect(body.rows).toEqual([{ a: 1, a_3: 2, a_2: 3, a_4: 4 }]);
  });

  it('can have no rows, no columns or many columns', async () => {
    expect((await run('select 1 as a where false')).body).toMatchObject({
      columns: ['a'],
      rows: [],
      row_count: 0,
    });
    expect((await run('select')).body).toMatchObject({ columns: [], rows: [{}], row_count: 1 });
    const names = Array.from({ length: 1600 }, (_, n) => `c${n}`);
    const [row] = await rows(`select ${names.map((name, n) => `${n} as ${name}`).join(',')}`);
    expect(Object.keys(row)).toEqual(names);
    expect(row.c1599).toBe(1599);
  });

  it('stops at the limit and says whether there was more', async () => {
    const series = (limit: number) => run('select generate_series(1, 5) as n', { limit });
    expect((await series(3)).body).toMatchObject({
      row_count: 3,
      truncated: true,
      rows: [{ n: 1 }, { n: 2 }, { n: 3 }],
    });
    expect((await series(5)).body).toMatchObject({ row_count: 5, truncated: false });
    expect((await series(6)).body).toMatchObject({ row_count: 5, truncated: false });
    const started = performance.now();
    expect((await run('select generate_series(1, 1000000000) as n', { limit: 10 })).body.row_count).toBe(10);
    expect(performance.now() - started).toBeLessThan(5_000);
  });

  it('says what a change did', async () => {
    await run('create table told (id int primary key)');
    const insert = await run('insert into told select generate_series(1, 3) returning id', { limit: 1 });
    expect(insert.body).toMatchObject({ command: 'INSERT', affected: 3, row_count: 1, truncated: true });
    expect((await run('delete from told')).body).toMatchObject({
      command: 'DELETE',
      affected: 3,
      row_count: 0,
      rows: [],
    });
    expect((await run('drop table told')).body).toMatchObject({ command: 'DROP TABLE', affected: 0 });
  });
});

describe('statements of /query', () => {
  it('can be of every kind that a project may run', async () => {
    for (const query of [
      'create table kinds (id int generated always as identity primary key, v text)',
      "with added as (insert into kinds (v) values ('a'), ('b') returning *) select * from added",
      "update kinds set v = 'c' where id = 1 returning v",
      "merge into kinds using (values (1)) as s (id) on kinds.id = s.id when matched then update set v = 'm'",
      'create index concurrently on kinds (v)',
      'vacuum analyze kinds',
      'explain (format json) select * from kinds',
      "create procedure add_one() language plpgsql as $$ begin insert into kinds (v) values ('p'); commit; end $$",
      'call add_one()',
      'do $$ begin perform 1; end $$',
      'create view kinds_view as select * from kinds',
      'create materialized view kinds_mat as select * from kinds',
      'refresh materialized view kinds_mat',
      'show server_version',
      'notify something',
      'truncate kinds',
      "comment on table kinds is 'x'",
      'drop table kinds cascade',
    ]) {
      const { status, body } = await run(query);
      expect([query, status, body.error?.message]).toEqual([query, 200, undefined]);
    }
  });

  it.each([
    ['select 1; select 2', 'multiple_statements'],
    ['begin', 'statement_not_allowed'],
    ['commit and chain', 'statement_not_allowed'],
    ['rollback', 'statement_not_allowed'],
    ['savepoint a', 'statement_not_allowed'],
    ['prepare a as select 1', 'statement_not_allowed'],
    ['execute a', 'statement_not_allowed'],
    ['listen a', 'statement_not_allowed'],
    ['set search_path = x', 'statement_not_allowed'],
    ['reset all', 'statement_not_allowed'],
    ['reset role', 'statement_not_allowed'],
    ['set session authorization default', 'statement_not_allowed'],
    ['copy (select 1) to stdout', 'statement_not_allowed'],
    ['copy pg_class from stdin', 'statement_not_allowed'],
    ['declare c cursor for select 1', 'statement_not_allowed'],
    ['discard all', 'statement_not_allowed'],
    ['', 'invalid_request'],
    ['   ', 'invalid_request'],
    ['-- nothing', 'invalid_request'],
    [';', 'invalid_request'],
    ['select 1\u0000', 'invalid_request'],
    ['selec 1', 'sql_error'],
    ['select * from nowhere', 'sql_error'],
  ])('%j is refused with %s', async (query, expected) => {
    const { status, body } = await run(query);
    expect([status, body.error.code]).toEqual([400, expected]);
    if (expected === 'statement_not_allowed') expect(body.error.hint).toBeTruthy();
  });

  it('fail with a hint for the next step', async () => {
    const hint = async (query: string, more: object = {}) => (await run(query, more)).body.error.hint;
    expect(await hint('select $1::int, $2::int', { params: [1] })).toContain(
      'one value in "params" for each of $1',
    );
    expect(await hint('create table never (id int)', { read_only: true })).toContain('"read_only"');
    expect(await hint('lock table pg_class')).toContain('DO $$ begin lock table');
    expect(await hint('listen news')).toContain('GET …/connection');
    expect(await hint('copy (select 1) to stdout')).toContain('POST …/tables/:table');
    expect(await hint('vacuum', { read_only: true })).toContain('POST …/query without "read_only"');
  });

  it('a wrong number of values is reported without the names of prepared statements', async () => {
    const query = 'select $1::int as a, $2::int as b';
    await run(query, { params: [1, 2] });
    for (const params of [[1], [1, 2, 3]]) {
      const { message } = (await run(query, { params })).body.error;
      expect(message).toBe(`"params" has ${params.length} values, but the statement requires 2`);
    }
  });

  it('get a clear 400 when nested too deep for the parser, and the next one works', async () => {
    const deep = `select ${'('.repeat(30_000)}1${')'.repeat(30_000)}`;
    const { status } = await run(deep);
    expect(status).toBe(400);
    const nested = `select ${'1+('.repeat(20_000)}1${')'.repeat(20_000)}`;
    expect((await run(nested)).status).toBe(400);
    expect(await rows('select 1 as fine')).toEqual([{ fine: 1 }]);
  });

  it('that crash the parser affect no other request', async () => {
    const padding = ` -- ${'x'.repeat(20_000)}`;
    const [broken, ...others] = await Promise.all([
      run(`select 1${'+1'.repeat(100_000)}`),
      ...Array.from({ length: 20 }, (_, n) => run(`select ${n} as n${n % 2 ? padding : ''}`, {}, neighbour)),
    ]);
    expect(broken.body.error.code).toBe('statement_not_allowed');
    others.forEach(({ body }, n) => {
      expect(body.rows).toEqual([{ n }]);
    });
  });

  it('can have several megabytes', async () => {
    await run('create table large (v text)');
    const values = Array.from({ length: 40_000 }, (_, n) => `('${'x'.repeat(60)}${n}')`).join(',');
    const { status, body } = await run(`insert into large values ${values}`);
    expect([status, body.affected]).toEqual([200, 40_000]);
    await run('drop table large');
  });

  it('with a COPY that the parser cannot see neither hang nor block the connection', async () => {
    const padding = `/* ${'x'.repeat(1_100_000)} */`;
    await run('create table copied (id int)');
    expect(await code(`${padding} copy copied from stdin`)).toEqual([400, 'statement_not_allowed']);
    expect(await code(`${padding} begin`)).toEqual([400, 'statement_not_allowed']);
    expect(await rows('select 1 as fine')).toEqual([{ fine: 1 }]);
  });
});

describe('parameters of /query', () => {
  it.each(['select $1::jsonb', 'select $1::int[]'])('nested too deep get 400: %s', async (query) => {
    const deep = '['.repeat(60_000) + ']'.repeat(60_000);
    const { status, body } = await rowhouse.call('POST', `/projects/${mine.slug}/query`, {
      key: mine.key,
      raw: `{"query":"${query}","params":[${deep}]}`,
    });
    expect([status, body.error.code]).toEqual([400, 'invalid_request']);
  });

  it('can be of every JSON type', async () => {
    const [row] = await rows(
      `select $1::text as text, $2::int as int, $3::bool as bool, $4::jsonb as object, $5::jsonb as list,
              $6::int[] as ints, $7::text[] as texts, $8::text as nothing, $9::numeric as big, $10::int[] as deep`,
      {
        params: [
          'it\'s "quoted" \\ and 日本',
          -5,
          true,
          { a: [1, { b: null }] },
          [1, 'two', null],
          [1, null, 3],
          ['a"b', 'c,d', '{e}', null, '', 'NULL', '\\'],
          null,
          '123456789012345678901234567890.5',
          [
            [1, 2],
            [3, 4],
          ],
        ],
      },
    );
    expect(row).toEqual({
      text: 'it\'s "quoted" \\ and 日本',
      int: -5,
      bool: true,
      object: { a: [1, { b: null }] },
      list: [1, 'two', null],
      ints: [1, null, 3],
      texts: ['a"b', 'c,d', '{e}', null, '', 'NULL', '\\'],
      nothing: null,
      big: Number('123456789012345678901234567890.5'),
      deep: [
        [1, 2],
        [3, 4],
      ],
    });
  });

  it('never become SQL', async () => {
    const evil = "'; drop table pg_class; --";
    expect(await rows('select $1::text as v', { params: [evil] })).toEqual([{ v: evil }]);
  });

  it('in a wrong number or of a wrong type are refused', async () => {
    expect(await code('select $1::int', { params: [] })).toEqual([400, 'sql_error']);
    expect(await code('select $1::int', { params: [1, 2] })).toEqual([400, 'sql_error']);
    expect(await code('select $1::int', { params: ['x'] })).toEqual([422, 'constraint_violation']);
    expect(await code('select $1::text', { params: ['a\u0000'] })).toEqual([422, 'constraint_violation']);
    expect(await code('select 1', { params: 'x' })).toEqual([400, 'invalid_request']);
  });
});

describe('errors of /query', () => {
  it("carry PostgreSQL's message and nothing internal", async () => {
    const { status, body } = await run('select nope from pg_class');
    expect([status, body.error.code]).toEqual([400, 'sql_error']);
    expect(body.error).toMatchObject({
      message: 'column "nope" does not exist',
      sql: { state: '42703', position: '8' },
    });
    expect(JSON.stringify(body)).not.toMatch(/p_[a-z0-9]{16}|exchange|session\.ts/);
  });

  it('have the documented statuses', async () => {
    await run('create table checked (id int primary key, n int not null check (n > 0))');
    await run('insert into checked values (1, 1)');
    expect(await code('insert into checked values (1, 1)')).toEqual([409, 'conflict']);
    expect(await code('insert into checked values (2, 0)')).toEqual([422, 'constraint_violation']);
    expect(await code('insert into checked values (2, null)')).toEqual([422, 'constraint_violation']);
    expect(await code("insert into checked values ('x', 1)")).toEqual([422, 'constraint_violation']);
    expect(await code('select * from pg_authid')).toEqual([403, 'sql_error']);
    expect(await code('select 1/0')).toEqual([400, 'sql_error']);
    const { body } = await run('insert into checked values (1, 1)');
    expect(body.error.sql).toMatchObject({ state: '23505', constraint: 'checked_pkey', table: 'checked' });
  });

  it('are cut when they are too long', async () => {
    const { status, body } = await run(`do $$ begin raise exception '%', repeat('é', 5000); end $$`);
    expect(status).toBe(400);
    expect(Buffer.byteLength(body.error.message)).toBeLessThan(4200);
    const giant = await run(`do $$ begin raise exception '%', repeat('x', 50000000); end $$`);
    expect([giant.status, giant.body.error.code]).toEqual([400, 'sql_error']);
    await run(
      `do $$ begin for i in 1..20 loop raise notice '%', repeat('x', 3000000); raise warning '%', repeat('y', 100); end loop; end $$`,
    );
    expect(await rows('select 1 as fine')).toEqual([{ fine: 1 }]);
  });
});

describe('options of /query', () => {
  beforeAll(async () => {
    await run('create table guarded (id int primary key)');
    await run('insert into guarded select generate_series(1, 10)');
  });
  const count = async () => (await rows('select count(*)::int as n from guarded'))[0].n;

  it('read_only prevents every write', async () => {
    for (const query of [
      'delete from guarded',
      'create table x (id int)',
      `do $$ begin set transaction read write; delete from guarded; end $$`,
      `do $$ begin perform set_config('transaction_read_only', 'off', false); delete from guarded; end $$`,
    ]) {
      expect((await run(query, { read_only: true })).status).toBe(400);
    }
    expect(await count()).toBe(10);
    expect((await run('select 1 as one', { read_only: true })).body.rows).toEqual([{ one: 1 }]);
  });

  it('dry_run runs, reports and is rolled back', async () => {
    const { body } = await run('delete from guarded returning id', { dry_run: true });
    expect(body).toMatchObject({ affected: 10, row_count: 10 });
    expect(await count()).toBe(10);
    expect(await code('delete from nowhere', { dry_run: true })).toEqual([400, 'sql_error']);
  });

  it('max_affected rolls back more rows and keeps as many', async () => {
    const over = await run('delete from guarded', { max_affected: 9 });
    expect([over.status, over.body.error.details.affected]).toEqual([409, 10]);
    expect(await count()).toBe(10);
    expect((await run('delete from guarded where id = 1', { max_affected: 1 })).status).toBe(200);
    expect(await count()).toBe(9);
    expect((await run('delete from guarded', { max_affected: 100, dry_run: true })).body.affected).toBe(9);
    expect(await count()).toBe(9);
  });

  it('invalid options are refused', async () => {
    for (const wish of [
      { limit: 0 },
      { limit: 1.5 },
      { timeout_ms: 0 },
      { timeout_ms: 1e9 },
      { max_affected: -1 },
      { numbers: 'x' },
      { foo: 1 },
    ]) {
      expect((await run('select 1', wish)).status).toBe(400);
    }
  });

  it('a read-only key can read', async () => {
    const issued = await rowhouse.call('POST', `/projects/${mine.slug}/keys`, {
      body: { name: 'r', scopes: ['query:read'] },
    });
    const reader = { ...mine, key: issued.body.api_key };
    expect((await run('select 1 as one', {}, reader)).status).toBe(200);
    expect((await run('delete from guarded', {}, reader)).status).toBe(400);
    expect((await run('delete from guarded', { read_only: false }, reader)).status).toBe(400);
    const other = await rowhouse.call('POST', `/projects/${mine.slug}/keys`, {
      body: { name: 'a', scopes: ['auth'] },
    });
    expect((await run('select 1', {}, { ...mine, key: other.body.api_key })).status).toBe(403);
    expect((await run('select 1', {}, { ...mine, slug: neighbour.slug })).status).toBe(404);
  });
});

describe('a batch', () => {
  const batch = (statements: object[], more: object = {}) =>
    rowhouse.call('POST', `/projects/${mine.slug}/batch`, { key: mine.key, body: { statements, ...more } });

  it('runs all in one transaction, with a result each', async () => {
    await run('create table batched (id int primary key)');
    const { status, body } = await batch([
      { query: 'insert into batched values ($1) returning id', params: [1] },
      { query: 'insert into batched values ($1) returning id', params: [2] },
      { query: 'select count(*)::int as n, txid_current()::text is not null as t from batched' },
    ]);
    expect(status).toBe(200);
    expect(body.results.map((result: { rows: unknown[] }) => result.rows)).toEqual([
      [{ id: 1 }],
      [{ id: 2 }],
      [{ n: 2, t: true }],
    ]);
  });

  it('is all or nothing and names the statement that failed', async () => {
    const failed = await batch([
      { query: 'insert into batched values (3)' },
      { query: 'insert into batched values (1)' },
      { query: 'insert into batched values (4)' },
    ]);
    expect([failed.status, failed.body.error.code, failed.body.error.details.statement]).toEqual([
      409,
      'conflict',
      1,
    ]);
    expect(await rows('select id from batched order by id')).toEqual([{ id: 1 }, { id: 2 }]);
    const refused = await batch([{ query: 'insert into batched values (5)' }, { query: 'commit' }]);
    expect([refused.status, refused.body.error.details.statement]).toEqual([400, 1]);
    expect(await rows('select id from batched order by id')).toEqual([{ id: 1 }, { id: 2 }]);
  });

  it('is undone as a whole if a statement affects another number of rows than expected', async () => {
    await run('create table edited (id int primary key, v text)');
    await run("insert into edited values (1, 'a'), (2, 'b'), (3, 'b')");
    const edit = (query: string, expect_affected: number, params: unknown[] = []) => ({
      query,
      params,
      expect_affected,
    });
    const changed = await batch([
      edit('update edited set v = $1 where id = $2', 1, ['x', 1]),
      edit("update edited set v = 'y' where v = 'b' returning id", 1),
      edit('delete from edited', 3),
    ]);
    expect([changed.status, changed.body.error.code, changed.body.error.details]).toEqual([
      409,
      'conflict',
      { retryable: false, affected: 2, expect_affected: 1, statement: 1 },
    ]);
    expect(await rows('select id, v from edited order by id')).toEqual([
      { id: 1, v: 'a' },
      { id: 2, v: 'b' },
      { id: 3, v: 'b' },
    ]);
    const fine = await batch([
      edit("update edited set v = 'z' where id = 1 and v = 'a'", 1),
      edit("delete from edited where v = 'nothing'", 0),
      edit("select id from edited where v = 'b'", 2),
      edit('create table made_in_batch ()', 0),
      { query: 'update edited set v = v' },
    ]);
    expect(fine.status, JSON.stringify(fine.body)).toBe(200);
    expect(await rows('select v from edited where id = 1')).toEqual([{ v: 'z' }]);
    for (const wrong of [-1, 1.5, '1', null])
      expect((await batch([{ query: 'select 1', expect_affected: wrong }])).status).toBe(400);
    // A conflict is an ordinary answer: it costs no new session.
    const backend = async () => (await batch([{ query: 'select pg_backend_pid()' }])).body.results[0].rows;
    const before = await backend();
    expect((await batch([edit('update edited set v = v', 99)])).status).toBe(409);
    expect(await backend()).toEqual(before);
  });

  it('can take a lock and use a setting, as the hints say', async () => {
    const { status, body } = await batch([
      { query: 'do $$ begin lock table batched; end $$' },
      { query: "select set_config('work_mem', '1MB', true)" },
      {
        // A table in another database of the server can have the same OID.
        query: `select mode, current_setting('work_mem') from pg_locks
                where relation = 'batched'::regclass and pid = pg_backend_pid()`,
      },
    ]);
    expect(status).toBe(200);
    expect(body.results[2].rows).toEqual([{ mode: 'AccessExclusiveLock', current_setting: '1MB' }]);
  });

  it('names an unknown field of an entry and the known ones', async () => {
    const { body } = await batch([{ query: 'select 1', dry_run: true }]);
    expect(body.error.message).toBe(
      'statements.0.dry_run: is unknown; known: query, params, limit, expect_affected',
    );
  });

  it('is rolled back by a deferred constraint', async () => {
    await run(
      'create table later (id int primary key, parent int references later deferrable initially deferred)',
    );
    const failed = await batch([{ query: 'insert into later values (1, 99)' }, { query: 'select 1' }]);
    expect(failed.body.ok).toBe(false);
    expect(await rows('select * from later')).toEqual([]);
    expect(await code('insert into later values (1, 99)')).toEqual([422, 'constraint_violation']);
  });

  it('applies its deadline to deferred checks too', async () => {
    await run('create table slow_end (id int)');
    await run(
      'create function sleeps() returns trigger language plpgsql as $$ begin perform pg_sleep(9); return null; end $$',
    );
    await run(
      'create constraint trigger t after insert on slow_end initially deferred for each row execute function sleeps()',
    );
    const query = 'insert into slow_end values (1)';
    const { status, body } = await batch([{ query }], { timeout_ms: 300 });
    expect([status, body.error.code]).toEqual([504, 'query_timeout']);
    expect(await code(query, { max_affected: 5, timeout_ms: 300 })).toEqual([504, 'query_timeout']);
    expect(await rows('select * from slow_end')).toEqual([]);
  });

  it('says when its results are too large together', async () => {
    const { status, body } = await batch([
      { query: "select repeat('x', 1000) from generate_series(1, 80000)" },
    ]);
    expect([status, body.error.message]).toEqual([400, 'The result is larger than 64 MB.']);
  });
});

describe('nothing is left for the next request', () => {
  const leaks: [string, string, string, unknown][] = [
    [
      'settings',
      "select set_config('a.b', 'leak', false)",
      "select current_setting('a.b', true) as v",
      [null, ''],
    ],
    [
      'settings of a DO',
      "do $$ begin perform set_config('a.c', 'leak', false); end $$",
      "select current_setting('a.c', true) as v",
      [null, ''],
    ],
    [
      'search_path',
      "select set_config('search_path', 'pg_temp', false)",
      "select current_setting('search_path') as v",
      ['public'],
    ],
    [
      'the time zone',
      "select set_config('TimeZone', 'Asia/Tokyo', false)",
      "select current_setting('TimeZone') as v",
      ['UTC'],
    ],
    [
      'temporary tables',
      'create temp table leak as select 1',
      "select to_regclass('pg_temp.leak')::text as v",
      [null],
    ],
    [
      'cursors',
      "do $$ begin execute 'declare leak cursor with hold for select 1'; end $$",
      "select count(*)::int as v from pg_cursors where name <> ''",
      [0],
    ],
    [
      'prepared statements',
      "do $$ begin execute 'prepare leak as select 1'; end $$",
      "select count(*)::int as v from pg_prepared_statements where name = 'leak'",
      [0],
    ],
    [
      'listening',
      "do $$ begin execute 'listen leak'; end $$",
      'select count(*)::int as v from pg_listening_channels()',
      [0],
    ],
    [
      'a role',
      "do $$ begin execute 'set role none'; end $$",
      'select (current_user = session_user) as v',
      [true],
    ],
  ];
  it.each(leaks)('not even %s', async (_what, plant, look, expected) => {
    for (let times = 0; times < 3; times++) {
      expect((await run(plant)).status).toBe(200);
      const [row] = await rows(look);
      expect(expected).toContain(row.v);
    }
  });

  it('not even the session state of sequences, by a default and by name', async () => {
    await run('create table counted (id serial primary key)');
    await run('insert into counted default values');
    expect(await code('select lastval()')).toEqual([400, 'sql_error']);
    await run("select nextval('counted_id_seq')");
    expect(await code("select currval('counted_id_seq')")).toEqual([400, 'sql_error']);
  });

  it('not even what a trigger or a view does', async () => {
    await run('create table trapped (id int)');
    await run(
      `create function plant() returns trigger language plpgsql as $$ begin perform set_config('x.y', 'leak', false); return new; end $$`,
    );
    await run('create trigger t before insert on trapped for each row execute function plant()');
    await run('insert into trapped values (1)');
    expect([null, '']).toContain((await rows("select current_setting('x.y', true) as v"))[0].v);
    await run(`create view planter as select set_config('x.z', 'leak', false) as v`);
    await rows('select * from planter');
    expect([null, '']).toContain((await rows("select current_setting('x.z', true) as v"))[0].v);
  });
});

describe('numbers that doubles cannot hold', () => {
  const big = '12345678901234567890.123456789';
  const raw = async (body: string, path = 'query') => {
    const answer = await rowhouse.call('POST', `/projects/${mine.slug}/${path}`, {
      key: mine.key,
      raw: body,
    });
    return { ...answer, first: answer.body.rows?.[0] };
  };

  it('keep every digit', async () => {
    const types = ['numeric', 'text', 'int8', 'jsonb'].map(
      (type, index) => `$${index + 1}::${type}::text as ${type}`,
    );
    const { first } = await raw(
      `{"query": "select ${types}", "params": [${big}, ${big}, 9007199254740993, {"n": [${big}, 1e400]}]}`,
    );
    const zeros = `1${'0'.repeat(400)}`;
    expect(first).toEqual({
      numeric: big,
      text: big,
      int8: '9007199254740993',
      jsonb: `{"n": [${big}, ${zeros}]}`,
    });
    const { body } = await raw(
      `{"statements": [{"query": "select $1::numeric[]::text as a, $2::int8[]::text as b, $3::json::text as c", "params": [[[${big}], [null]], [-9007199254740993], [${big}, "${big}"]]}]}`,
      'batch',
    );
    expect(body.results[0].rows).toEqual([
      { a: `{{${big}},{NULL}}`, b: '{-9007199254740993}', c: `[${big},"${big}"]` },
    ]);
  });

  it.each([
    ['limit', '1e400'],
    ['limit', '9007199254740993'],
    ['timeout_ms', big],
    ['max_affected', '12345678901234567890'],
    ['numbers', big],
    ['query', big],
    ['params', big],
    ['read_only', '9007199254740993'],
  ])('"%s": %s is refused', async (name, number) => {
    const body = { query: '"select 1"', [name]: number };
    const { status, body: answer } = await raw(
      `{${Object.entries(body).map(([key, value]) => `"${key}": ${value}`)}}`,
    );
    expect([status, answer.error?.code]).toEqual([400, 'invalid_request']);
    expect(answer.error.details[0].path).toBe(name);
  });

  it('are not taken for objects', async () => {
    expect((await raw(big)).status).toBe(400);
    expect((await raw(`[${big}]`)).status).toBe(400);
    expect((await raw(`{"statements": [${big}]}`, 'batch')).status).toBe(400);
    expect((await raw(`{"query": "select 1", "__proto__": ${big}}`)).status).toBe(400);
  });
});

describe('deadlines', () => {
  it('the HTTP connection outlasts the longest allowed statement', () => {
    expect(rowhouse.app.server.timeout).toBeGreaterThan(rowhouse.service.deps.limits.maxTimeoutMs);
  });

  it.each([
    ['a sleep', 'select pg_sleep(60)'],
    ['a loop', 'do $$ begin loop perform 1; end loop; end $$'],
    [
      'a caught cancel',
      'do $$ begin loop begin perform pg_sleep(60); exception when query_canceled then null; end; end loop; end $$',
    ],
    [
      'a disarmed timeout',
      `do $$ begin perform set_config('statement_timeout', '0', false); perform pg_sleep(60); end $$`,
    ],
    [
      'a cross join',
      'select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b, generate_series(1, 1000) c',
    ],
    [
      'a recursion',
      'with recursive r as (select 1 as n union all select n + 1 from r) select count(*) from r',
    ],
  ])('%s is ended at its deadline', async (_what, query) => {
    const started = performance.now();
    const { status, body } = await run(query, { timeout_ms: 300 });
    expect([status, body.error.code]).toEqual([504, 'query_timeout']);
    expect(performance.now() - started).toBeLessThan(13_000);
    expect(await rows('select 1 as fine')).toEqual([{ fine: 1 }]);
    expect((await run('select 1 as fine', {}, neighbour)).body.rows).toEqual([{ fine: 1 }]);
  });

  it('a statement that catches its cancel and finishes in time succeeds', async () => {
    await run('create table caught (id int)');
    const { status } = await run(
      'do $$ begin begin perform pg_sleep(60); exception when query_canceled then insert into caught values (1); end; end $$',
      { timeout_ms: 200 },
    );
    expect(status).toBe(200);
    expect(await rows('select count(*)::int as n from caught')).toEqual([{ n: 1 }]);
  });

  it('a deferred trigger that sleeps at commit is ended too', async () => {
    await run('create table slow (id int)');
    await run(
      'create function nap() returns trigger language plpgsql as $$ begin perform pg_sleep(60); return null; end $$',
    );
    await run(
      'create constraint trigger nap after insert on slow deferrable initially deferred for each row execute function nap()',
    );
    expect(await code('insert into slow values (1)', { timeout_ms: 300 })).toEqual([504, 'query_timeout']);
    expect(await rows('select count(*)::int as n from slow')).toEqual([{ n: 0 }]);
  });

  it('a statement that timed out does not go on in PostgreSQL', async () => {
    expect(await code('select pg_sleep(60), 4711', { timeout_ms: 200 })).toEqual([504, 'query_timeout']);
    await until('it is gone', async () =>
      asAdmin(async (admin) => {
        const found = await admin.query(sql`
          select 1 from pg_stat_activity where query like '%4711%' and state = 'active' and pid <> pg_backend_pid()`);
        return found.length === 0;
      }),
    );
  });
});

describe('the first rows of a billion', () => {
  it.each([
    ['select * from generate_series(1, 1000000000)', 'generate_series', 1],
    ['select * from generate_series(1, 1000000000) as n', 'n', 1],
    ['select é from generate_series(1, 1000000000, 7) as é -- é', 'é', 1],
    ['select n * 2 as twice from Generate_Series(1, 1000000000) n where n > 10', 'twice', 22],
  ])('%s with a limit of 10 answers within a second', async (query, column, first) => {
    const began = performance.now();
    const { body } = await run(query, { limit: 10 });
    expect([body.columns, body.row_count, body.truncated]).toEqual([[column], 10, true]);
    expect(body.rows[0]).toEqual({ [column]: first });
    expect(performance.now() - began).toBeLessThan(1_000);
  });

  it("errors point into the caller's own text", async () => {
    const query = 'select nothing from generate_series(1, 10)';
    const { body } = await run(query, { limit: 1 });
    expect([body.error.sql.state, body.error.sql.position]).toEqual(['42703', '8']);
    const row = await run('select to_json(g) as j from generate_series(1, 2) g(n)', { limit: 1 });
    expect(row.body.rows).toEqual([{ j: 1 }]);
    const params = await run('select * from generate_series($1::int, $2::int) as n', {
      params: [3, 4],
      limit: 1,
    });
    expect([params.body.rows, params.body.truncated]).toEqual([[{ n: 3 }], true]);
    const wrong = await run("select n from generate_series(1, 10) as n where n = 'x'", { limit: 1 });
    expect([wrong.body.error.sql.state, wrong.body.error.sql.position]).toEqual(['22P02', '53']);
  });

  it('a limit changes the number of rows, and nothing else', async () => {
    await run(
      'create function generate_series(text, text) returns table (a text, b text) language sql as $$ select $1, $2 $$',
    );
    for (const query of [
      'select n from generate_series(1, 3) as n (m)',
      'select to_json(n) as j, m from generate_series(1, 3) as n (m)',
      'select * from generate_series($1::text, $2::text)',
    ]) {
      const more = query.includes('$1') ? { params: ['x', 'y'] } : {};
      const [all, first] = [await run(query, more), await run(query, { ...more, limit: 1 })];
      expect([first.body.types, first.body.rows]).toEqual([all.body.types, all.body.rows.slice(0, 1)]);
    }
  });
});

describe('a result that may still be rolled back', () => {
  it('is not shown in part under max_affected', async () => {
    await run('create table wide (id int, t text)');
    const insert =
      "insert into wide select n, repeat('x', 1000) from generate_series(1, 2000) as n returning *";
    const over = await run(insert, { max_affected: 10 });
    expect([over.status, over.body.error.code]).toEqual([409, 'conflict']);
    expect((await run(insert, { max_affected: 2000 })).body.row_count).toBe(2000);
    expect((await run('select count(*)::int as n from wide')).body.rows).toEqual([{ n: 2000 }]);
  });

  it('is refused in a batch when too large, and nothing is stored', async () => {
    const statements = [
      { query: 'insert into wide values (0, null)' },
      { query: "select repeat('x', 1000000) from generate_series(1, 100)" },
    ];
    const { status, body } = await rowhouse.call('POST', `/projects/${mine.slug}/batch`, {
      key: mine.key,
      body: { statements },
    });
    expect([status, body.error.code]).toEqual([400, 'sql_error']);
    expect((await run('select 1 from wide where id = 0')).body.rows).toEqual([]);
  });
});
