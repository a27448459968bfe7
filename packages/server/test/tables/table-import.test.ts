// Imports through the service's own sessions: what PostgreSQL holds afterwards, and that nobody else noticed.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RowhouseError } from '../../src/errors/errors.ts';
import { sql } from '../../src/postgres/sql.ts';
import type { Reader } from '../../src/query/exchange/reader.ts';
import { getTable, type Table } from '../../src/tables/catalog/catalog.ts';
import { type ImportFormat, type ImportOptions, importRows } from '../../src/tables/import/import.ts';
import { api, asAdmin, until, useTestService } from '../support/helpers.ts';
import { openTableSession, type TableSession } from '../support/table-session.ts';

const rowhouse = useTestService({ spares: 2, connections: { budget: 6, share: 3 } });
let project: { id: string; slug: string; key: string };
let neighbour: { id: string; slug: string; key: string };
let session: TableSession;
beforeAll(async () => {
  project = await rowhouse.project('Imports');
  neighbour = await rowhouse.project('Neighbour');
  session = await openTableSession(rowhouse.service.deps.server, project.id);
});
afterAll(() => session.end());

const make = (text: string) => session.client.query(text);
const counts = () => rowhouse.service.deps.query.sessions.counts();
const rowsOf = (name: string) => session.run(`select * from ${name}`);
const countOf = async (name: string) => Number((await session.run(`select count(*) from ${name}`))[0]?.[0]);

type Caller = Reader & { hangUp(): void };

function caller(): Caller {
  const tells: (() => void)[] = [];
  const one = {
    hasBegun: false,
    isGone: false,
    startedAt: performance.now(),
    leftMs: 30_000,
    mayHaveChanged: false,
    whenGone: (tell: () => void) => void tells.push(tell),
    write: () => true,
    drained: () => {},
    hangUp: () => {
      one.isGone = true;
      for (const tell of tells) tell();
    },
  };
  return one;
}

async function* inPieces(text: string | Buffer, size = 65_536): AsyncGenerator<Buffer, void> {
  const bytes = Buffer.from(text as string);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

type Way = { table?: Table; reader?: Reader; options?: Partial<ImportOptions> };

async function load(
  name: string,
  format: ImportFormat,
  body: string | Buffer | AsyncIterable<Buffer>,
  { table, reader = caller(), options = {} }: Way = {},
): Promise<number> {
  const pieces = typeof body === 'string' || Buffer.isBuffer(body) ? inPieces(body) : body;
  const { rowCount } = await importRows(
    rowhouse.service.deps.query,
    {
      project: {
        id: project.id,
        serverId: rowhouse.service.deps.server.id,
        passwordVersion: 1,
        accountId: null,
      },
      table: table ?? (await getTable(session.ask, name)),
      format,
      body: pieces,
      reader,
    },
    { timeoutMs: 30_000, ...options },
  );
  return rowCount;
}

const refusal = async (running: Promise<unknown>): Promise<RowhouseError> => {
  const error = await running.then(
    (value) => new Error(`it worked: ${JSON.stringify(value)}`),
    (thrown) => thrown,
  );
  expect(error).toHaveProperty('code');
  return error;
};

/** After whatever happened: nothing is in use, and the project answers. */
async function expectPeace(): Promise<void> {
  await until('sessions come back', async () => counts().open === counts().idle && counts().waiting === 0);
  const { status, body } = await rowhouse.call('POST', `/projects/${project.slug}/query`, {
    key: project.key,
    body: { query: 'select 1 as one' },
  });
  expect([status, body.rows]).toEqual([200, [{ one: 1 }]]);
}

/** Backends of the project that are in a transaction or running something. */
const busy = (id: string) =>
  asAdmin(async (admin) => {
    const rows = await admin.query(sql`
      select 1 from pg_stat_activity where datname = ${`p_${id}`} and state <> 'idle'
        and application_name = 'rowhouse query'`);
    return rows.length;
  });

describe('imported rows', () => {
  it('are stored as sent in CSV', async () => {
    await make(
      'create table tricky (id int primary key, "a ""b"", c" text, n numeric, note text default $$d$$)',
    );
    const body =
      '\uFEFFid,"a ""b"", c",n\r\n1,"x, ""y""\r\nz",1.50\r\n2,,\r\n3,"",12345678901234567890.123\r\n4,\\.,\r\n5,"\\.",0\r\n6,é😀 \\N \t,-1';
    for (const size of [1, 7, 65_536]) {
      await make('truncate tricky');
      expect(await load('tricky', 'csv', inPieces(body, size))).toBe(6);
      expect(await rowsOf('tricky')).toEqual([
        ['1', 'x, "y"\r\nz', '1.50', 'd'],
        ['2', null, null, 'd'],
        ['3', '', '12345678901234567890.123', 'd'],
        ['4', '\\.', null, 'd'],
        ['5', '\\.', '0', 'd'],
        ['6', 'é😀 \\N \t', '-1', 'd'],
      ]);
    }
  });

  it('are stored as sent in JSON lines', async () => {
    await make('create table lines (id int, t text, j jsonb, a text[], n numeric, b bytea)');
    const rows = [
      {
        id: 1,
        t: 'tab\t, \\N, \\., "q"\r\n',
        j: { a: [1, null, '\\'] },
        a: ['x', null, 'a"b\\'],
        n: 1.5,
        b: '\\x00ff',
      },
      { id: 2, t: '', j: 'text', a: [], n: null, b: null },
      { t: null, id: 3, j: null, b: '\\x', a: null, n: 0 },
    ];
    const body = `${rows
      .map((row) => JSON.stringify(row))
      .join('\n')
      .replace('1.5', '123456789012345678901.25')}\n\n`;
    expect(await load('lines', 'json-lines', inPieces(body, 3))).toBe(3);
    expect(await rowsOf('lines')).toEqual([
      [
        '1',
        'tab\t, \\N, \\., "q"\r\n',
        '{"a": [1, null, "\\\\"]}',
        '{x,NULL,"a\\"b\\\\"}',
        '123456789012345678901.25',
        '\\x00ff',
      ],
      ['2', '', '"text"', '{}', null, null],
      ['3', null, null, null, '0', '\\x'],
    ]);
  });

  it('of every type are read back as they were written', async () => {
    await make(`
      create type mood as enum ('sad', 'so so'); create domain small as int check (value < 100);
      create type pair as (a int, b text);
      create type deep as (p pair, ps pair[], j jsonb, t text[], "odd ""f""" numeric, at timestamp);
      create table every (
        i2 int2, i8 int8, n numeric(20,5), f4 float4, f8 float8, b boolean, t text, v varchar(5), c char(4), by bytea,
        d date, ti time, tz timestamptz, ts timestamp, iv interval, u uuid, j json, jb jsonb, m mood, s small, p pair,
        dp deep, dps deep[], ia int[], ta text[][], ja jsonb[], ma mood[], r int4range, ip inet, pt point, bits bit(3), x xml, tv tsvector, mo money
      );
      insert into every values (
        -32768, 9223372036854775807, 12345.67891, 'NaN', '-Infinity', true, 'é', 'abc', 'a', '\\x00ff5c',
        'infinity', '23:59:59.999999', '2026-11-14 09:30:00.123456+02', '0044-03-15 12:00:00 BC', '1 year -2 days 03:04:05.6',
        'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a":1}', '[1, "x"]', 'so so', 99, row(1, 'a,"b"'),
        row(row(2, '(")'), array[row(3, ''), row(null, null), null]::pair[], '{"x": "\\\\"}', '{a,NULL,"b c"}', 123456789012345678901.5, 'infinity')::deep,
        array[row(null, null, '"s"', '{}', 1, '2026-01-02 03:04:05.678')::deep, null],
        '{1,NULL,3}', '{{a,"b,c"},{"d\\"",""}}', array['{"a": "\\\\"}'::jsonb, null], '{sad,"so so"}', '[1,5)', '::1/64', '(1.5,-2)',
        '101', '<a>b</a>', 'a:1 b:2', 12.34), (${Array(34).fill('null').join(', ')})`);
    const columns = [...(await getTable(session.ask, 'every')).columns.keys()];
    const before = await session.run('select every::text from every');
    const csv = columns.map((name) => `"${name}"`).join();
    const [line = []] = await rowsOf('every');
    const cell = (value: string | null) => (value === null ? '' : `"${value.replaceAll('"', '""')}"`);
    await make('create table every_too (like every)');
    await load('every_too', 'csv', `${csv}\n${line.map(cell).join()}\n${Array(33).fill(',').join('')}\n`);
    expect(await session.run('select every_too::text from every_too')).toEqual(before);
    // The same from what a query says of it.
    const answer = await rowhouse.app.inject({
      method: 'POST',
      url: `${api}/projects/${project.slug}/query`,
      headers: { 'x-api-key': project.key },
      payload: { query: 'select * from every' },
    });
    await make('truncate every_too');
    const rows = /"rows":\[(.*)\],"row_count"/s
      .exec(answer.body)?.[1]
      ?.replace('},{"i2":null', '}\n{"i2":null');
    expect(await load('every_too', 'json-lines', rows ?? '')).toBe(2);
    expect(await session.run('select every_too::text from every_too')).toEqual(before);
  });

  it('refuse unknown fields of a composite', async () => {
    const error = await refusal(load('every', 'json-lines', '{"p":{"a":1}}\n{"p":{"a":1,"__proto__":2}}'));
    expect([error.status, error.message]).toEqual([
      400,
      'line 2: "p" has the key "__proto__", which its type does not have',
    ]);
    expect(await countOf('every')).toBe(2);
  });

  it('go into tables with any name and nowhere else', async () => {
    const names = [
      'a"b',
      'a.b',
      '"; drop table tricky; --',
      'COPY x, line 9, column y: ',
      '../up',
      'select',
      'ü\n',
    ];
    await make('create schema "od""d"');
    for (const name of names) {
      const quoted = `"${name.replaceAll('"', '""')}"`;
      await make(`create table "od""d".${quoted} (id int, ${quoted} int)`);
      const csvName = `"${name.replaceAll('"', '""')}"`;
      expect(await load(`od"d.${name}`, 'csv', `id,${csvName}\n1,2\n`)).toBe(1);
      expect(await load(`od"d.${name}`, 'json-lines', JSON.stringify({ id: 1, [name]: 2 }))).toBe(1);
      expect(await rowsOf(`"od""d".${quoted}`)).toEqual([
        ['1', '2'],
        ['1', '2'],
      ]);
      const error = await refusal(load(`od"d.${name}`, 'csv', `${csvName},id\n5,6\n7,8\nx,9\n`));
      expect([error.status, error.details]).toEqual([
        422,
        { line: 4 + (name.split('\n').length - 1), column: name },
      ]);
    }
    expect(await countOf('tricky')).toBe(6);
  });

  it('can be none', async () => {
    await make('create table none (a int)');
    expect(await load('none', 'csv', 'a')).toBe(0);
    expect(await load('none', 'csv', 'a\r\n')).toBe(0);
    expect((await refusal(load('none', 'json-lines', ''))).status).toBe(400);
  });

  it('get defaults, identities and triggers', async () => {
    await make(`
      create table kept (id int generated by default as identity, at timestamptz default now(), name text, shout text generated always as (upper(name)) stored);
      create function stamp() returns trigger language plpgsql as $$ begin new.name := new.name || '!'; return new; end $$;
      create trigger stamp before insert on kept for each row execute function stamp()`);
    expect(await load('kept', 'csv', 'name\na\nb\n')).toBe(2);
    expect(await session.run('select id, name, shout from kept')).toEqual([
      ['1', 'a!', 'A!'],
      ['2', 'b!', 'B!'],
    ]);
  });

  it('go into their partition', async () => {
    await make(`
      create table parts (id int, name text) partition by range (id);
      create table parts_1 partition of parts for values from (0) to (10);
      create table parts_2 partition of parts for values from (10) to (20)`);
    expect(await load('parts', 'csv', 'name,id\na,1\nb,11\n')).toBe(2);
    expect(await countOf('parts_2')).toBe(1);
    const error = await refusal(load('parts', 'csv', 'name,id\na,1\nb,99\n'));
    expect([error.status, error.code, error.details]).toEqual([422, 'constraint_violation', { line: 3 }]);
  });

  it('go through a view with an INSTEAD OF trigger and no other view', async () => {
    await make(`
      create table behind (id int); create view front as select id from behind; create view other as select id from behind;
      create materialized view still as select id from behind;
      create function pass() returns trigger language plpgsql as $$ begin insert into behind values (new.id * 10); return new; end $$;
      create trigger pass instead of insert on front for each row execute function pass()`);
    expect(await load('front', 'csv', 'id\n1\n2\n')).toBe(2);
    expect(await rowsOf('behind')).toEqual([['10'], ['20']]);
    for (const name of ['other', 'still']) {
      const error = await refusal(load(name, 'csv', 'id\n1\n'));
      expect([error.status, error.code]).toEqual([400, 'invalid_request']);
      expect(error.message).toContain('rows cannot be imported into');
      expect(error.hint).toContain(name === 'other' ? 'JSON array' : 'underlying tables');
    }
    await expectPeace();
  });
});

describe('an import is all or nothing', () => {
  beforeAll(() =>
    make('create table whole (id int primary key, price int not null check (price <> 13), name text)'),
  );
  const many = (count: number, last: string) =>
    `id,price,name\n${Array.from({ length: count - 1 }, (_, n) => `${n},${n + 100},name ${n}\n`).join('')}${last}\n`;

  it.each([
    [
      'a value of another type',
      '50000,abc,x',
      422,
      'constraint_violation',
      'Line 50001, column "price": invalid input syntax for type integer: "abc"',
      { column: 'price' },
    ],
    [
      'a value that is too much',
      '50000,9999999999,x',
      422,
      'constraint_violation',
      'Line 50001, column "price": value "9999999999" is out of range',
      { column: 'price' },
    ],
    ['a key that was there', '7,1,x', 409, 'conflict', 'Line 50001: duplicate key', { retryable: false }],
    [
      'a broken rule',
      '50000,13,x',
      422,
      'constraint_violation',
      'Line 50001: new row for relation "whole" violates check',
      {},
    ],
    [
      'nothing where something must be',
      '50000,,x',
      422,
      'constraint_violation',
      'Line 50001: null value in column "price"',
      {},
    ],
    ['a value too few', '50000,1', 400, 'sql_error', 'Line 50001: missing data for column "name"', {}],
    [
      'a value too many',
      '50000,1,x,y',
      400,
      'sql_error',
      'Line 50001: extra data after last expected column',
      {},
    ],
    ['an open quote', '50000,1,"x', 400, 'sql_error', 'unterminated CSV quoted field', {}],
    [
      'a NUL',
      '50000,1,\0',
      422,
      'constraint_violation',
      'invalid byte sequence for encoding "UTF8": 0x00',
      {},
    ],
  ])('with %s in the last of 50,000 rows', async (_what, last, status, code, message, details) => {
    const error = await refusal(load('whole', 'csv', many(50_000, last)));
    expect([error.status, error.code]).toEqual([status, code]);
    expect(error.message).toContain(message);
    expect(error.details).toMatchObject(details);
    expect((error.details as { line: number }).line).toBeGreaterThanOrEqual(50_001);
    expect(error.hint).toContain('No row was imported');
    expect(Object.keys(error.sql ?? {})).not.toContain('where');
    expect(await countOf('whole')).toBe(0);
    await expectPeace();
  });

  it('with an invalid JSON line', async () => {
    const lines = Array.from({ length: 50_000 }, (_, n) => `{"id":${n},"price":1,"name":null}`);
    const broken = await refusal(load('whole', 'json-lines', [...lines, '{"id":1,'].join('\n')));
    expect([broken.status, broken.code]).toEqual([400, 'invalid_json']);
    expect(broken.message).toContain('line 50001');
    const other = await refusal(
      load('whole', 'json-lines', [...lines, '{"id":-1,"prize":1,"name":""}'].join('\n')),
    );
    expect([other.status, other.message]).toEqual([
      400,
      expect.stringContaining('line 50001: has the key "prize"'),
    ]);
    const typed = await refusal(
      load('whole', 'json-lines', [...lines, '{"id":-1,"price":"x","name":""}'].join('\n')),
    );
    expect([typed.status, typed.details]).toEqual([422, { line: 50_001, column: 'price' }]);
    expect(await countOf('whole')).toBe(0);
    await expectPeace();
  });

  it('with an error that is found only at the end', async () => {
    await make(`
      create table owners (id int primary key);
      create table pets (id int, owner int references owners deferrable initially deferred);
      create table toys (id int, owner int references owners)`);
    for (const name of ['pets', 'toys']) {
      const error = await refusal(load(name, 'csv', 'id,owner\n1,5\n'));
      expect([error.status, error.code, error.sql?.state]).toEqual([422, 'constraint_violation', '23503']);
      expect(await countOf(name)).toBe(0);
    }
    await expectPeace();
  });

  it('with a value that is too long to be quoted', async () => {
    for (const size of [100_000, 3_000_000]) {
      const error = await refusal(load('whole', 'csv', `price,id\n1,1\n${'x'.repeat(size)},2\n`));
      expect(error.status).toBe(size < 1_000_000 ? 422 : 400);
      expect(error.message.length).toBeLessThan(5_000);
      if (size < 1_000_000) expect(error.details).toEqual({ line: 3, column: 'price' });
    }
    expect(await countOf('whole')).toBe(0);
    await expectPeace();
  });

  it('with row security that is forced for the owner', async () => {
    await make('create table guarded (id int); alter table guarded enable row level security');
    expect(await load('guarded', 'csv', 'id\n1\n')).toBe(1);
    await make('alter table guarded force row level security');
    const error = await refusal(load('guarded', 'csv', 'id\n1\n'));
    expect([error.status, error.code, error.hint]).toEqual([
      ...[400, 'sql_error', expect.stringContaining('JSON array')],
    ]);
    expect(error.sql).not.toHaveProperty('position');
    await expectPeace();
  });

  it('and an error stops the sender at once', async () => {
    let given = 0;
    async function* endless(): AsyncGenerator<Buffer, void> {
      yield Buffer.from('id,price,name\n1,oops,x\n');
      for (; ; given++) {
        await new Promise((resolve) => setImmediate(resolve));
        yield Buffer.from('2,2,x\n'.repeat(5_000));
      }
    }
    const error = await refusal(load('whole', 'csv', endless()));
    expect([error.status, error.details]).toEqual([422, { line: 2, column: 'price' }]);
    expect(given).toBeLessThan(100);
    const after = given;
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(given).toBeLessThanOrEqual(after + 1);
    await expectPeace();
  });

  it('with a trigger that raises an error of any text', async () => {
    await make(`
      create table picky (id int);
      create function refuse() returns trigger language plpgsql as $$ begin
        if new.id = 3 then raise exception 'COPY picky, line 99' using errcode = 'RH001'; end if; return new; end $$;
      create trigger refuse before insert on picky for each row execute function refuse()`);
    const error = await refusal(load('picky', 'csv', 'id\n1\n2\n3\n4\n'));
    expect([error.status, error.code, error.details]).toEqual([400, 'sql_error', { line: 4 }]);
    await make(`create or replace function refuse() returns trigger language plpgsql as $$ begin
      raise exception '%', repeat('x', 3000000); end $$`);
    expect((await refusal(load('picky', 'csv', 'id\n1\n'))).status).toBe(400);
    expect(await countOf('picky')).toBe(0);
    await expectPeace();
  });
});

describe('columns of an import', () => {
  beforeAll(() =>
    make(`create table shop (id int generated always as identity, price numeric, name text,
      loud text generated always as (upper(name)) stored, "__proto__" int)`),
  );

  it.each([
    ['csv', 'prize\n1\n', 'the header line: "shop" has no column "prize"; the nearest is "price"'],
    ['json-lines', '{"prize":1}', 'line 1: "shop" has no column "prize"; the nearest is "price"'],
    ['csv', 'constructor\n1\n', 'has no column "constructor"'],
    ['csv', 'name,loud\na,b\n', 'column "loud" is generated'],
    ['csv', 'id,name\n1,b\n', 'column "id" is an identity column'],
    ['json-lines', '{"name":"a","id":null}', 'column "id" is an identity column'],
    ['csv', 'name,name\na,b\n', 'has the column "name" twice'],
    ['csv', `${'n'.repeat(70)}\na\n`, 'has no column'],
    ['csv', '\n', 'is missing'],
  ] as const)('%s %j', async (format, body, message) => {
    const idle = counts();
    const error = await refusal(load('shop', format, body));
    expect([error.status, error.code]).toEqual([400, 'invalid_request']);
    expect(error.message).toContain(message);
    await expectPeace();
    expect(counts().open).toBeLessThanOrEqual(Math.max(1, idle.open));
  });

  it('of any name', async () => {
    expect(await load('shop', 'json-lines', '{"__proto__":5,"name":"x"}')).toBe(1);
    expect(await load('shop', 'csv', '__proto__\n6\n')).toBe(1);
    expect(await session.run('select "__proto__" from shop')).toEqual([['5'], ['6']]);
  });

  it('are those the table has now, not when it was looked at', async () => {
    await make('create table moving (id int, data text)');
    const old = await getTable(session.ask, 'moving');
    await make(
      'alter table moving add column extra int; alter table moving alter data type jsonb using null',
    );
    expect(await load('', 'json-lines', '{"id":1,"data":"1","extra":2}', { table: old })).toBe(1);
    expect(await rowsOf('moving')).toEqual([['1', '"1"', '2']]);
    await make('drop table moving; create table moving (id int, data int generated always as (1) stored)');
    const error = await refusal(load('', 'csv', 'data\n1\n', { table: old }));
    expect(error.message).toContain('is generated');
    expect(await load('', 'csv', 'id\n1\n', { table: old })).toBe(1);
    await make('drop table moving');
    expect((await refusal(load('', 'csv', 'id\n1\n', { table: old }))).status).toBe(404);
    await expectPeace();
  });

  it('and the fields of a type are those it has now', async () => {
    await make('create type spot as (x int, y int); create table spots (at spot)');
    const old = await getTable(session.ask, 'spots');
    await make('alter type spot drop attribute x; alter type spot add attribute z int');
    expect(await load('', 'json-lines', '{"at":{"z":1,"y":2}}', { table: old })).toBe(1);
    expect(await rowsOf('spots')).toEqual([['(2,1)']]);
    await expectPeace();
  });

  it('that were dropped before the import got the table give an error', async () => {
    await make('create table leaving (id int, data text)');
    const old = await getTable(session.ask, 'leaving');
    await make('begin; alter table leaving rename data to info');
    const renamed = refusal(load('', 'csv', 'id,data\n1,x\n', { table: old }));
    await until('it waits', async () => (await busy(project.id)) === 1);
    await make('commit');
    expect(await renamed).toMatchObject({
      status: 400,
      message: expect.stringContaining('has no column "data"'),
    });
    await make('begin; drop table leaving');
    const dropped = refusal(load('', 'csv', 'id\n1\n', { table: old }));
    await until('it waits', async () => (await busy(project.id)) === 1);
    await make('commit');
    expect((await dropped).status).toBe(404);
    await expectPeace();
  });

  it('that change while the import waits for the table give an error', async () => {
    await make('create table altered (data text)');
    const old = await getTable(session.ask, 'altered');
    await make('begin; alter table altered alter data type jsonb using null');
    const running = load('', 'json-lines', '{"data":"1"}', { table: old });
    await until('it waits', async () => (await busy(project.id)) === 1);
    await make('commit');
    expect(await running).toBe(1);
    expect(await rowsOf('altered')).toEqual([['"1"']]);
    await expectPeace();
  });
});

describe('the sender of an import', () => {
  beforeAll(() => make('create table slow (id int, name text)'));

  it("may be slow: only PostgreSQL's time counts", async () => {
    async function* drip(): AsyncGenerator<Buffer, void> {
      yield Buffer.from('id,name\n');
      for (let n = 0; n < 8; n++) {
        await new Promise((resolve) => setTimeout(resolve, 200));
        yield Buffer.from(`${n},x\n`);
      }
    }
    expect(await load('slow', 'csv', drip(), { options: { timeoutMs: 500 } })).toBe(8);
    await expectPeace();
  });

  it('is given up when it stalls, before and after the first line', async () => {
    async function* stall(first: string): AsyncGenerator<Buffer, void> {
      yield Buffer.from(first);
      await new Promise(() => {});
    }
    for (const first of ['id,na', 'id,name\n1,x\n']) {
      const error = await refusal(load('slow', 'csv', stall(first), { options: { stallMs: 300 } }));
      expect([error.status, error.code]).toEqual([408, 'request_timeout']);
    }
    expect(await countOf('slow')).toBe(8);
    await expectPeace();
  });

  it('leaves nothing when it hangs up in the middle', async () => {
    const reader = caller();
    let sent = 0;
    async function* rows(): AsyncGenerator<Buffer, void> {
      yield Buffer.from('id,name\n');
      for (; sent < 1_000; sent++) {
        yield Buffer.from('1,x\n'.repeat(20_000));
        if (sent === 20) reader.hangUp();
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    }
    const error = await refusal(load('slow', 'csv', rows(), { reader }));
    expect(error.code).toBe('request_timeout');
    expect(sent).toBeLessThan(100);
    await until('nothing runs', async () => (await busy(project.id)) === 0);
    expect(await countOf('slow')).toBe(8);
    await expectPeace();
  });

  it("gets the connection's error when its connection breaks", async () => {
    async function* broken(): AsyncGenerator<Buffer, void> {
      yield Buffer.from('id,name\n1,x\n');
      await new Promise((resolve) => setTimeout(resolve, 50));
      throw Object.assign(new Error('aborted'), { code: 'ECONNRESET' });
    }
    await expect(load('slow', 'csv', broken())).rejects.toMatchObject({ code: 'ECONNRESET' });
    expect(await countOf('slow')).toBe(8);
    await expectPeace();
  });

  it("is held to a deadline of PostgreSQL's time", async () => {
    await make(`
      create table heavy (id int);
      create function sleep() returns trigger language plpgsql as $$ begin perform pg_sleep(0.2); return new; end $$;
      create trigger sleep before insert on heavy for each row execute function sleep();
      create function stubborn() returns trigger language plpgsql as $$ begin
        for n in 1..100 loop begin perform pg_sleep(1); exception when query_canceled then null; end; end loop; return new; end $$`);
    const body = `id\n${'1\n'.repeat(50_000)}`;
    const error = await refusal(load('heavy', 'csv', body, { options: { timeoutMs: 500 } }));
    expect([error.status, error.code]).toEqual([504, 'query_timeout']);
    await make(
      'drop trigger sleep on heavy; create trigger sleep before insert on heavy for each row execute function stubborn()',
    );
    const started = performance.now();
    const endless = inPieces(`id\n${'1\n'.repeat(12_000_000)}`);
    const forced = await refusal(load('heavy', 'csv', endless, { options: { timeoutMs: 500 } }));
    expect(forced.code).toBe('query_timeout');
    expect(performance.now() - started).toBeLessThan(5_000);
    // All of it had been sent, the commit too. PostgreSQL's last message tells that the commit never began.
    const ended = await refusal(load('heavy', 'csv', body, { options: { timeoutMs: 500 } }));
    expect([ended.status, ended.code]).toEqual([504, 'query_timeout']);
    await until('nothing runs', async () => (await busy(project.id)) === 0);
    expect(await countOf('heavy')).toBe(0);
    await make('begin; lock table slow in access exclusive mode');
    const locked = await refusal(
      load('', 'csv', 'id\n1\n', { table: await getTable(session.ask, 'slow'), options: { timeoutMs: 300 } }),
    );
    expect(locked.code).toBe('query_timeout');
    await make('commit');
    await expectPeace();
  });

  it('gets nothing stored when the session is terminated', async () => {
    async function* rows(): AsyncGenerator<Buffer, void> {
      yield Buffer.from('id,name\n1,x\n');
      await until('it runs', async () => (await busy(project.id)) === 1);
      await asAdmin((admin) =>
        admin.query(sql`
          select pg_terminate_backend(pid) from pg_stat_activity
          where datname = ${`p_${project.id}`} and application_name = 'rowhouse query'`),
      );
      await new Promise(() => {});
    }
    const error = await refusal(load('slow', 'csv', rows()));
    expect([error.status, error.code]).toEqual([503, 'unavailable']);
    expect(await countOf('slow')).toBe(8);
    await until('it works again', async () => {
      const { status } = await rowhouse.call('POST', `/projects/${project.slug}/query`, {
        key: project.key,
        body: { query: 'select 1' },
      });
      return status === 200;
    });
  });
});

describe('what an import leaves behind in its session', () => {
  it("is nothing of a trigger's settings", async () => {
    await make(`
      create table dirty (id serial);
      create function dirty() returns trigger language plpgsql as $$ begin
        perform set_config('work_mem', '1234kB', false), set_config('my.mark', 'x', false);
        create temp table if not exists planted (a int); return new; end $$;
      create trigger dirty before insert on dirty for each row execute function dirty()`);
    expect(await load('dirty', 'csv', 'id\n1\n')).toBe(1);
    await expect(load('dirty', 'csv', 'id\nx\n')).rejects.toThrow();
    const { body } = await rowhouse.call('POST', `/projects/${project.slug}/query`, {
      key: project.key,
      body: {
        query: `select current_setting('work_mem') as work_mem, current_setting('my.mark', true) as mark,
          to_regclass('pg_temp.planted')::text as planted`,
      },
    });
    expect(body.rows[0]).toMatchObject({ planted: null });
    expect(body.rows[0].work_mem).not.toBe('1234kB');
    expect(body.rows[0].mark || null).toBe(null);
  });

  it('is nothing of a sequence', async () => {
    await make('create table counted (id serial, name text)');
    expect((await getTable(session.ask, 'counted')).isPlainToWrite).toBe(true);
    expect(await load('counted', 'csv', 'name\na\nb\n')).toBe(2);
    const { status, body } = await rowhouse.call('POST', `/projects/${project.slug}/query`, {
      key: project.key,
      body: { query: 'select lastval()' },
    });
    expect([status, body.error?.sql?.state]).toEqual([400, '55000']);
  });

  it('is a session that is used again', async () => {
    await expectPeace();
    const { open } = counts();
    for (let n = 0; n < 5; n++) {
      await load('counted', 'csv', 'name\na\n');
      await expect(load('counted', 'csv', 'id\nx\n')).rejects.toThrow();
    }
    await expectPeace();
    expect(counts().open).toBeLessThanOrEqual(Math.max(open, 1));
  });
});

describe('an import of 100,000 rows and more', () => {
  const line = (n: number) => `${n},name ${n},${n * 1.5},"some text, of a certain length, for number ${n}"\n`;

  async function* rowsOfCsv(count: number, onPiece: () => void = () => {}): AsyncGenerator<Buffer, void> {
    yield Buffer.from('id,name,amount,note\n');
    for (let from = 0; from < count; from += 1_000) {
      let text = '';
      for (let n = from; n < Math.min(count, from + 1_000); n++) text += line(n);
      onPiece();
      yield Buffer.from(text);
    }
  }

  it('is streamed in constant memory', async () => {
    await make('create unlogged table big (id int primary key, name text, amount numeric, note text)');
    expect(await load('big', 'csv', rowsOfCsv(10_000))).toBe(10_000);
    await make('truncate big');
    globalThis.gc?.();
    const before = process.memoryUsage();
    let most = 0;
    let held = 0;
    const look = () => {
      const { rss, arrayBuffers } = process.memoryUsage();
      most = Math.max(most, rss - before.rss);
      held = Math.max(held, arrayBuffers - before.arrayBuffers);
    };
    expect(await load('big', 'csv', rowsOfCsv(400_000, look))).toBe(400_000);
    expect(await session.run('select count(*), sum(id), count(distinct note) from big')).toEqual([
      ['400000', String((400_000 * 399_999) / 2), '400000'],
    ]);
    // 28 MB went through.
    expect(most).toBeLessThan(120 * 1024 * 1024);
    expect(held).toBeLessThan(100 * 1024 * 1024);
    await expectPeace();
  });

  it('is read no faster than PostgreSQL takes it', async () => {
    await make(`
      create table thick (id int, name text, amount numeric, note text);
      create function wait() returns trigger language plpgsql as $$ begin
        if new.id = 1 then perform pg_sleep(1); end if; return new; end $$;
      create trigger wait before insert on thick for each row execute function wait()`);
    let pieces = 0;
    let atHalf = 0;
    const running = load(
      'thick',
      'csv',
      rowsOfCsv(200_000, () => void pieces++),
    );
    await until('it runs', async () => (await busy(project.id)) === 1);
    await new Promise((resolve) => setTimeout(resolve, 500));
    atHalf = pieces;
    expect(await running).toBe(200_000);
    // A piece is 70 KB: pieces are held here, in the kernel (over TCP that is several megabytes) and in PostgreSQL.
    expect(atHalf).toBeLessThan(90);
    expect(pieces).toBe(200);
  });

  it('as JSON lines does not disturb a neighbour', async () => {
    await make('truncate big');
    async function* lines(): AsyncGenerator<Buffer, void> {
      for (let from = 0; from < 100_000; from += 500) {
        let text = '';
        for (let n = from; n < from + 500; n++)
          text += `{"id":${n},"name":"name ${n}","amount":${n * 1.5},"note":"some \\"text\\" ${n}"}\n`;
        yield Buffer.from(text);
      }
    }
    let longest = 0;
    let asked = 0;
    let done = false;
    const running = load('big', 'json-lines', lines()).finally(() => {
      done = true;
    });
    while (!done) {
      const started = performance.now();
      const { status } = await rowhouse.call('POST', `/projects/${neighbour.slug}/query`, {
        key: neighbour.key,
        body: { query: 'select 1' },
      });
      expect(status).toBe(200);
      asked++;
      longest = Math.max(longest, performance.now() - started);
    }
    expect(await running).toBe(100_000);
    expect(asked).toBeGreaterThan(3);
    expect(longest).toBeLessThan(2_000);
    expect(await session.run('select count(*), min(note) from big')).toEqual([['100000', 'some "text" 0']]);
    await expectPeace();
  });
});
