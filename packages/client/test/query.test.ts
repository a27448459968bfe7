import { beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../server/test/support/helpers.ts';
import { type Client, RowhouseError, safe } from '../src/index.ts';
import { failureOf, useLive } from './live.ts';

const live = useLive();
let db: Client;
beforeAll(async () => {
  db = live.client();
  await db.query(
    'create table teas (id int generated always as identity primary key, name text unique, price numeric)',
  );
});

describe('query', () => {
  it('returns the whole result', async () => {
    expect(await db.query('select $1::int + 1 as next, $2::text as t', [41, "it's"])).toEqual({
      ok: true,
      columns: ['next', 't'],
      types: ['int4', 'text'],
      rows: [{ next: 42, t: "it's" }],
      row_count: 1,
      duration_ms: expect.any(Number),
      command: 'SELECT',
      affected: 1,
      truncated: false,
    });
  });

  it('takes every option', async () => {
    const { rows, truncated } = await db.query('select generate_series(1, 1000000) as n', [], { limit: 2 });
    expect([rows, truncated]).toEqual([[{ n: 1 }, { n: 2 }], true]);
    expect(await failureOf(db.query('select pg_sleep(60)', [], { timeoutMs: 100 }))).toMatchObject({
      code: 'query_timeout',
      status: 504,
    });
    const insert = "insert into teas (name) values ('x') returning name";
    expect(await failureOf(db.query(insert, [], { readOnly: true }))).toMatchObject({ code: 'sql_error' });
    expect((await db.query(insert, [], { dryRun: true })).rows).toEqual([{ name: 'x' }]);
    expect(await failureOf(db.query(insert, [], { maxAffected: 0 }))).toMatchObject({ code: 'conflict' });
    expect((await db.query('select from teas')).row_count).toBe(0);
  });

  it('runs once with an Idempotency-Key, however often it is sent', async () => {
    const insert = 'insert into teas (name) values ($1) returning id';
    const options = { idempotencyKey: 'order-66' };
    const first = await db.query(insert, ['once'], options);
    expect(await db.query(insert, ['once'], options)).toEqual(first);
    expect((await db.query(insert, ['twice'], { idempotencyKey: true })).affected).toBe(1);
  });

  it('sends values with their types', async () => {
    const { rows } = await live.client({ numbers: 'bigint' }).query(
      `select $1::int8 as big, $2::timestamptz as date, $3::bytea as bytes, $4::jsonb as json, $5::int8[] as list,
         $6::float8 as nan, $7::text as nothing, $8::text[] as texts, $9::numeric as exact`,
      [
        9223372036854775807n,
        new Date('2026-11-14T09:30:00.123Z'),
        new Uint8Array([0, 255]),
        { a: [2n ** 80n, { b: undefined }], date: new Date(0) },
        [1n, null, -9223372036854775808n],
        Number.NaN,
        null,
        ['a"b', '\\', ''],
        '0.12345678901234567890',
      ],
    );
    expect(rows).toEqual([
      {
        big: 9223372036854775807n,
        date: '2026-11-14T09:30:00.123Z',
        bytes: '\\x00ff',
        json: { a: [2n ** 80n, {}], date: '1970-01-01T00:00:00.000Z' },
        list: [1n, null, -9223372036854775808n],
        nan: 'NaN',
        nothing: null,
        texts: ['a"b', '\\', ''],
        exact: '0.12345678901234567890',
      },
    ]);
    expect(await failureOf(db.query('select $1', [undefined]))).toMatchObject({
      code: 'invalid_request',
      status: 0,
    });
  });
});

describe('numbers', () => {
  const text = `select 9007199254740993::int8 as big, 1.50::numeric as exact, array[1::int8] as list, 7 as small,
    0.1::float8 as float, '{"n": 12345678901234567890.5}'::jsonb as json`;

  it("'number' throws rather than round", async () => {
    expect(await failureOf(db.query(text))).toMatchObject({
      name: 'RowhouseError',
      code: 'unsafe_number',
      message: expect.stringMatching(/"(big|json)" is (9007199254740993|12345678901234567890\.5)/),
      hint: expect.stringContaining("numbers: 'string'"),
    });
    const { rows } = await db.query(
      'select 9007199254740991 as a, 1.50 as b, 0.1::float4 as c, 1e23::float8 as d',
    );
    expect(rows).toEqual([{ a: 9007199254740991, b: 1.5, c: 0.1, d: 1e23 }]);
  });

  it("'string' gives the digits", async () => {
    expect((await live.client({ numbers: 'string' }).query(text)).rows).toEqual([
      {
        big: '9007199254740993',
        exact: '1.50',
        list: ['1'],
        small: 7,
        float: 0.1,
        json: { n: '12345678901234567890.5' },
      },
    ]);
  });

  it("'bigint' gives BigInts of bigint, everywhere", async () => {
    const exact = live.client({ numbers: 'bigint' });
    const row = {
      big: 9007199254740993n,
      exact: '1.50',
      list: [1n],
      small: 7,
      float: 0.1,
      json: { n: '12345678901234567890.5' },
    };
    expect((await exact.query(text)).rows).toEqual([row]);
    expect((await exact.batch([text]))[0]?.rows).toEqual([row]);
    for await (const one of exact.query.stream(text)) expect(one).toEqual(row);
    await exact.query('create table big (id bigint primary key, n numeric, d jsonb)');
    const stored = { id: 2n ** 62n, n: '0.10', d: [2n ** 70n, 1] };
    expect(await exact.table('big').insert(stored)).toEqual(stored);
    expect(await exact.table('big').upsert([{ ...stored, n: 1n }])).toEqual([{ ...stored, n: '1' }]);
    expect(
      await exact
        .table('big')
        .eq('id', 2n ** 62n)
        .update({ d: null }),
    ).toEqual([{ ...stored, n: '1', d: null }]);
    expect((await exact.table('big').in('id', [2n ** 62n])).rows).toEqual([{ ...stored, n: '1', d: null }]);
    expect(
      await exact
        .table('big')
        .eq('id', 2n ** 62n)
        .delete({ returning: 'minimal' }),
    ).toBe(1);
  });

  it('inside composite types follow the rule of their type, whatever the value', async () => {
    await db.batch([
      'create domain whole as int8',
      'create type pair as (n int8, t text)',
      'create table own (w whole, p pair)',
    ]);
    for (const numbers of ['string', 'bigint'] as const) {
      const exact = live.client({ numbers });
      const own = { w: numbers === 'bigint' ? 1n : '1', p: { n: '2', t: '3' } };
      expect(await exact.table('own').insert({ w: 1n, p: { n: 2n, t: '3' } })).toEqual(own);
      expect((await exact.query('select w, p from own limit 1')).rows).toEqual([own]);
    }
    expect((await db.query('select w, p from own limit 1')).rows).toEqual([{ w: 1, p: { n: 2, t: '3' } }]);
    await db.query('insert into own (w) values (9007199254740993)');
    expect(await failureOf(db.table('own').is('p', null))).toMatchObject({
      code: 'unsafe_number',
      details: { column: 'w', value: '9007199254740993' },
    });
  });

  it('random doubles come back bit by bit', async () => {
    const values = Array.from({ length: 2_000 }, () => {
      const bytes = crypto.getRandomValues(new Uint8Array(8));
      return new DataView(bytes.buffer).getFloat64(0);
    }).filter(Number.isFinite);
    const { rows } = await db.query<{ v: number }>('select unnest($1::float8[]) as v', [values]);
    expect(rows.map(({ v }) => v)).toEqual(values);
  });
});

describe('sql', () => {
  it('makes parameters of values, and parts of fragments and names', async () => {
    const hostile = `'; drop table teas; --`;
    const cheap = db.sql`length(name) > ${3} and name <> ${hostile}`;
    const { rows } = await db.sql<{ name: string; n: number }>`
      select ${db.sql.id('name')}, ${7}::int as n from ${db.sql.id('public', 'teas')} where ${cheap} and ${true}::bool
      order by name`;
    expect(rows).toEqual([
      { name: 'once', n: 7 },
      { name: 'twice', n: 7 },
    ]);
    expect((await db.sql`select 1 as ${db.sql.id('a"b; --')}`).rows).toEqual([{ 'a"b; --': 1 }]);
  });

  it('runs when it is awaited, once', async () => {
    const insert = db.sql`insert into teas (name) values (${'lazy'})`;
    expect((await db.sql`select from teas where name = 'lazy'`).row_count).toBe(0);
    expect(await insert).toBe(await insert);
    expect((await db.sql`select from teas where name = 'lazy'`).row_count).toBe(1);
  });

  it('cannot be called with a plain string', async () => {
    const call = db.sql as unknown as (text: unknown) => unknown;
    for (const text of ['select 1', ['select 1'], { raw: 'select 1' }, null, undefined])
      expect(() => call(text)).toThrow('sql is a tag');
    for (const name of ['', 'a\0b', 'x'.repeat(64)]) expect(() => db.sql.id(name)).toThrow('is not a name');
  });

  it('a digit behind a value does not change which value it is', async () => {
    expect(await failureOf(db.sql`select ${1}0`)).toMatchObject({ sql: { state: '42601' } });
  });

  it('what only looks like a fragment is a value', async () => {
    const forged = JSON.parse('{"strings": ["1; drop table teas"], "values": []}');
    expect((await db.sql`select ${forged}::jsonb as v`).rows).toEqual([{ v: forged }]);
  });
});

describe('batch', () => {
  it('is all or nothing', async () => {
    const results = await db.batch([
      'create table log (n int primary key)',
      db.sql`insert into log values (${1}) returning n`,
      { query: 'select generate_series(1, $1::int) as n', params: [5], limit: 2 },
    ]);
    expect(results.map(({ rows, command }) => [command, rows])).toEqual([
      ['CREATE TABLE', []],
      ['INSERT', [{ n: 1 }]],
      ['SELECT', [{ n: 1 }, { n: 2 }]],
    ]);
    expect(
      await failureOf(db.batch(['insert into log values (2)', 'insert into log values (1)'])),
    ).toMatchObject({
      code: 'conflict',
      details: { statement: 1 },
    });
    expect((await db.query('select from log')).row_count).toBe(1);
    const expecting = { query: db.sql`update log set n = ${9} where n = ${8}`, expectAffected: 1 };
    expect(await failureOf(db.batch(['delete from log', expecting]))).toMatchObject({
      code: 'conflict',
      details: { affected: 0, expect_affected: 1, statement: 1 },
    });
    expect((await db.batch([{ query: 'select from log', expectAffected: 1 }])).length).toBe(1);
    expect(await failureOf(db.batch(['insert into log values (3)'], { readOnly: true }))).toMatchObject({
      code: 'sql_error',
    });
  });
});

describe('errors', () => {
  it('are one class with all fields', async () => {
    const error = await failureOf(db.query('select nope'));
    expect(error).toBeInstanceOf(RowhouseError);
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({
      name: 'RowhouseError',
      code: 'sql_error',
      status: 400,
      message: 'column "nope" does not exist',
      sql: { state: '42703', position: '8' },
      requestId: expect.any(String),
      retryable: false,
    });
    expect(String(error)).toBe('RowhouseError: column "nope" does not exist');
  });

  it('can be returned as values', async () => {
    expect(await safe(db.query('select 1 as one'))).toMatchObject({
      data: { rows: [{ one: 1 }] },
      error: null,
    });
    expect(await safe(db.sql`select nope`)).toMatchObject({ data: null, error: { code: 'sql_error' } });
    expect(await safe(db.table('nope'))).toMatchObject({
      data: null,
      error: { code: 'table_not_found', status: 404 },
    });
    await expect(safe(Promise.reject(new TypeError('a bug')))).rejects.toThrow('a bug');
  });

  it('cover network failures', async () => {
    const nobody = live.client({ url: 'http://127.0.0.1:1', retries: 0 });
    expect(await failureOf(nobody.query('select 1'))).toMatchObject({
      code: 'network_error',
      status: 0,
      message: expect.stringContaining('http://127.0.0.1:1'),
    });
    const wrong = live.client({ apiKey: 'rh_proj_wrong' });
    expect(await failureOf(wrong.query('select 1'))).toMatchObject({ code: 'invalid_api_key', status: 401 });
    expect(await failureOf(live.client({ project: 'nope' }).query('select 1'))).toMatchObject({
      code: 'project_not_found',
    });
  });

  it('of an aborted call cancel its statement', async () => {
    const controller = new AbortController();
    const running = failureOf(db.query("select 'given up', pg_sleep(60)", [], { signal: controller.signal }));
    const others = `select from pg_stat_activity where query like '%''given up''%' and pid <> pg_backend_pid()`;
    const look = async () => (await db.query(others)).row_count;
    await until('the statement runs', async () => (await look()) > 0);
    controller.abort(new Error('enough'));
    expect(await running).toMatchObject({ code: 'aborted' });
    await until('the statement ends', async () => (await look()) === 0);
    const already = AbortSignal.abort();
    expect(await failureOf(db.query('select 1', [], { signal: already }))).toMatchObject({ code: 'aborted' });
  });
});
