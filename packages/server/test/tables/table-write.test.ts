import { beforeAll, describe, expect, it } from 'vitest';
import { RowhouseError } from '../../src/errors/errors.ts';
import { sqlFailure } from '../../src/query/exchange/sql-failure.ts';
import { parseJsonText } from '../../src/query/json/json-text.ts';
import { getTable } from '../../src/tables/catalog/catalog.ts';
import { readChangeRequest } from '../../src/tables/request/request.ts';
import { allColumns, readSelect } from '../../src/tables/request/select.ts';
import { explainWriteError } from '../../src/tables/write/errors.ts';
import { compileInsert, type InsertOptions } from '../../src/tables/write/insert.ts';
import type { CompiledWrite, Returning } from '../../src/tables/write/statement.ts';
import { compileDelete, compileUpdate } from '../../src/tables/write/update-delete.ts';
import { useTestService } from '../support/helpers.ts';
import { seed, seeded } from '../support/random.ts';
import { type Text, useTableSessions } from '../support/table-session.ts';

const rowhouse = useTestService({ spares: 1 });
const { project, session, other } = useTableSessions(rowhouse);

const make = (text: string) => session.client.query(text);
const get = (name: string) => getTable(session.ask, name);
const plainInsert: InsertOptions = {
  onConflict: null,
  resolution: null,
  returning: 'row',
  select: allColumns,
};

type Shown = Record<string, Text>;

/** All or nothing, as whoever compiles has it run; an error is explained. */
async function run(statements: readonly CompiledWrite[]): Promise<Shown[]> {
  await make('begin');
  try {
    const rows: Shown[] = [];
    for (const compiled of statements) {
      const found = await session.run(compiled.text, compiled.params as (string | null)[]).catch((error) => {
        const {
          code: state,
          severity,
          message,
          detail,
          hint,
          position,
          schema,
          table,
          column,
          constraint,
        } = error;
        const given = { state, severity, message, detail, hint, position, schema, table, column, constraint };
        throw explainWriteError(sqlFailure(given), compiled, error.where);
      });
      for (const row of found) {
        expect(row).toHaveLength(compiled.columns.length + compiled.hidden);
        rows.push(Object.fromEntries(compiled.columns.map((name, index) => [name, row[index] ?? null])));
      }
    }
    await make('commit');
    return rows;
  } catch (error) {
    await make('rollback');
    throw error;
  }
}

async function insert(table: string, body: unknown, options: Partial<InsertOptions> = {}): Promise<Shown[]> {
  return run(compileInsert(await get(table), body, { ...plainInsert, ...options }));
}

async function update(
  table: string,
  body: unknown,
  query: string,
  returning: Returning = 'row',
): Promise<Shown[]> {
  return run([compileUpdate(await get(table), body, readChangeRequest(query, []), returning)]);
}

async function remove(table: string, query: string, returning: Returning = 'row'): Promise<Shown[]> {
  return run([compileDelete(await get(table), readChangeRequest(query, []), returning)]);
}

/** As the API shows it. */
async function query(text: string, numbers = 'number') {
  const { body } = await rowhouse.call('POST', `/projects/${project.slug}/query`, {
    key: project.key,
    body: { query: text, numbers },
  });
  expect(body.ok, JSON.stringify(body)).toBe(true);
  return body.rows as Record<string, unknown>[];
}

async function refused(doing: Promise<unknown>): Promise<RowhouseError> {
  const error = await doing.then(
    () => null,
    (thrown) => thrown,
  );
  expect(error, error?.stack).toBeInstanceOf(RowhouseError);
  expect(error.message.length).toBeLessThan(700);
  return error;
}

describe('written values', () => {
  beforeAll(async () => {
    await make(`
      create type mood as enum ('sad', 'it''s "ok"', 'happy');
      create domain small as int check (value < 1000);
      create domain tags as text[];
      create domain note as jsonb;
      create domain notes as jsonb[];
      create type inner_pair as (n numeric, at timestamptz, j jsonb);
      create type outer_pair as (a int, "b ""c" text, p inner_pair, list inner_pair[]);
      create domain checked_pair as inner_pair check ((value).n is null or (value).n < 100);
      create extension hstore;
    `);
  });

  /** type, what is given, what is read back if it is not the same. */
  const cases: [string, unknown, unknown?][] = [
    ['smallint', -32768],
    ['integer', 2147483647],
    ['integer', '12', 12],
    ['bigint', '9007199254740993'],
    ['numeric', '1.10'],
    ['numeric(10,2)', 1.5, '1.50'],
    ['real', 1.5],
    ['double precision', 1e300],
    ['double precision', 'NaN'],
    ['double precision', '-Infinity'],
    ['money', '12.34', '$12.34'],
    ['boolean', true],
    ['boolean', 'no', false],
    ['text', ''],
    ['text', 'it\'s "quoted" \\ back\nslash é 😀 $1 {a,b}'],
    ['text', 5, '5'],
    ['text', true, 'true'],
    ['text', { a: [1, 'b'] }, '{"a":[1,"b"]}'],
    ['varchar(5)', 'é😀abc'],
    ['char(5)', 'ab', 'ab   '],
    ['"char"', 'x'],
    ['name', 'x'],
    ['bytea', '\\x00ff7f'],
    ['uuid', '123e4567-e89b-12d3-a456-426614174000'],
    ['date', '2026-11-15'],
    ['date', 'infinity'],
    ['time', '09:30:00.123456'],
    ['timetz', '09:30:00+02'],
    ['timestamp', '2026-11-15T09:30:00.123456Z'],
    ['timestamptz', '2026-11-15T09:30:00.123456Z'],
    ['timestamptz', '2026-11-15T09:30:00+02:00', '2026-11-15T07:30:00Z'],
    ['timestamptz', '-infinity'],
    ['interval', 'P1Y2M3DT4H5M6.789S'],
    ['json', { b: 1, a: null }],
    ['json', 'text'],
    ['jsonb', 'text'],
    ['jsonb', 'it"s'],
    ['jsonb', 0],
    ['jsonb', false],
    ['jsonb', []],
    ['jsonb', [null, { a: null }]],
    ['jsonb', '{"a": 1}'],
    ['jsonb', null],
    ['note', 'text'],
    ['note', { a: [1] }],
    ['xml', '<a>b</a>'],
    ['inet', '10.0.0.1/8'],
    ['cidr', '10.0.0.0/8'],
    ['macaddr', '08:00:2b:01:02:03'],
    ['macaddr8', '08:00:2b:01:02:03:04:05'],
    ['point', '(1,2)'],
    ['lseg', '[(1,2),(3,4)]'],
    ['path', '((1,2),(3,4))'],
    ['polygon', '((1,2),(3,4),(5,6))'],
    ['box', '(3,4),(1,2)'],
    ['line', '{1,2,3}'],
    ['circle', '<(1,2),3>'],
    ['bit(3)', '101'],
    ['varbit', '10101'],
    ['tsvector', "'cat' 'fat'"],
    ['tsquery', "'cat' & 'dog'"],
    ['pg_lsn', '16/B374D848'],
    ['oid', '42'],
    ['int4range', '[1,5)'],
    ['numrange', '(,1.5]'],
    ['tstzrange', '["2026-01-01 00:00:00+00","2026-02-01 00:00:00+00")'],
    ['int4multirange', '{[1,3),[5,7)}'],
    ['jsonpath', '$."a"[*]'],
    ['mood', 'it\'s "ok"'],
    ['small', 999],
    ['hstore', { a: 'x', 'b "c" \\': null, 'é=>': '' }],
    ['hstore', { n: 5 }, { n: '5' }],
    ['hstore', '"a"=>"b"', { a: 'b' }],
    ['int[]', [1, null, -3]],
    ['int[]', []],
    ['int[]', '{1,2}', [1, 2]],
    [
      'int[]',
      [
        [1, 2],
        [3, null],
      ],
    ],
    ['text[]', ['a,b', '"q"', '\\', '{x}', 'NULL', '', null, ' é 😀 ']],
    [
      'text[]',
      [
        [['a'], ['b']],
        [['c'], ['d']],
      ],
    ],
    ['varchar(3)[]', ['abc', 'x']],
    ['boolean[]', [true, null, false]],
    ['bigint[]', ['9007199254740993']],
    ['timestamptz[]', ['2026-11-15T09:30:00.123456Z']],
    ['date[]', ['2026-11-15']],
    ['jsonb[]', [1, 'two', null, { three: [null] }, [4]]],
    ['jsonb[]', [[1, [2]], 'x', [], [null]]],
    ['notes', [['a'], { b: [] }, null]],
    ['json[]', ['a"b', { x: 'y' }]],
    ['mood[]', ['sad', 'it\'s "ok"']],
    ['small[]', [1, 2]],
    ['bytea[]', ['\\x00ff']],
    ['box[]', ['(3,4),(1,2)']],
    ['int4range[]', ['[1,5)', 'empty']],
    ['tags', ['a', null, 'b,c']],
    ['inner_pair', { n: '1.50', at: '2026-11-15T09:30:00.123456Z', j: 'text' }],
    ['inner_pair', { n: null, at: null, j: [1] }],
    ['inner_pair', { n: 5 }, { n: '5', at: null, j: null }],
    ['inner_pair', '(5,,)', { n: '5', at: null, j: null }],
    [
      'outer_pair',
      {
        a: 1,
        'b "c': 'x"y',
        p: { n: '2', at: null, j: { k: 'v' } },
        list: [{ n: '3', at: '2026-11-15T09:30:00Z', j: null }, null],
      },
    ],
    ['inner_pair[]', [{ n: '1', at: null, j: 'x' }, null, { n: null, at: null, j: null }]],
    ['checked_pair', { n: '99', at: null, j: null }],
  ];

  it('of every type are read back as they were written', async () => {
    const columns = cases.map(([type], index) => `c${index} ${type}`);
    await make(`create table every (id int primary key, ${columns.join(', ')})`);
    const table = await get('every');
    const write = (body: unknown) => run(compileInsert(table, body, plainInsert));
    const expected: Record<string, unknown>[] = [];
    for (const [index, [type, given, back = given]] of cases.entries()) {
      const [name, id] = [`c${index}`, index * 10];
      await write({ id, [name]: given }).catch((error) => expect.fail(`${type}: ${error.message}`));
      await write([
        { id: id + 1, [name]: given },
        { id: id + 2, [name]: null },
      ]);
      await write({ id: id + 3, [name]: null });
      const change = readChangeRequest(`id=eq.${id + 3}`, []);
      await run([compileUpdate(table, { [name]: given }, change, 'row')]);
      await write({ id: id + 4, [name]: given });
      const undo = readChangeRequest(`id=eq.${id + 4}`, []);
      await run([compileUpdate(table, { [name]: null }, undo, 'minimal')]);
      const read = (value: unknown) => ({ type, [name]: value });
      expected.push(...[back, back, null, back, null].map(read));
    }
    const rows = await query('select * from every order by id', 'string');
    const found = rows.map((row, index) => {
      const place = Math.floor(index / 5);
      return { type: cases[place]?.[0], [`c${place}`]: row[`c${place}`] };
    });
    expect(found).toEqual(expected);
    const nulls = await session.run(
      `select count(*) from every where coalesce(${cases.map((_, index) => `c${index}::text`).join(', ')}) is null`,
    );
    const given = cases.filter(([, value]) => value === null).length;
    expect(nulls, 'JSON null is SQL’s NULL for every type').toEqual([[String(cases.length * 2 + given * 3)]]);
  });

  it('keep every digit', async () => {
    await make('create table digits (id int primary key, n numeric, b bigint, l numeric[], j jsonb)');
    const long = '1234567890123456789012345678901234567890.1234567890123456789';
    const row = (id: number) =>
      `{"id": ${id}, "n": ${long}, "b": 9223372036854775807, "l": [${long}, -1e-30], "j": {"n": ${long}}}`;
    await insert('digits', parseJsonText(`{"id": 0, "n": ${long}, "b": -9223372036854775808}`));
    await insert('digits', parseJsonText(row(1)));
    await insert('digits', parseJsonText(`[${row(2)}, ${row(3)}]`));
    const rows = await session.run('select n, b, l, j from digits where id > 0');
    const small = '-0.000000000000000000000000000001';
    for (const found of rows) {
      expect(found).toEqual([long, '9223372036854775807', `{${long},${small}}`, `{"n": ${long}}`]);
    }
    expect(rows).toHaveLength(3);
    expect(await session.run('select n, b from digits where id = 0')).toEqual([
      [long, '-9223372036854775808'],
    ]);
  });

  it('are never cut', async () => {
    await make('create domain three as varchar(3); create type cut as (v varchar(3))');
    await make(
      'create table cuts (v varchar(3), c char(3), a varchar(3)[], d three, p cut, b bit(3), n numeric(4,1))',
    );
    for (const [name, value] of Object.entries({
      v: 'abcd',
      c: 'abcd',
      a: ['abcd'],
      d: 'abcd',
      p: { v: 'abcd' },
      b: '1010',
      n: 12345,
    })) {
      for (const body of [{ [name]: value }, [{ [name]: value }, { [name]: null }]]) {
        const error = await refused(insert('cuts', body));
        expect([error.status, error.code]).toEqual([422, 'constraint_violation']);
      }
    }
    expect(await query('select * from cuts')).toEqual([]);
    const { message, details } = await refused(insert('cuts', [{ v: 'abc' }, { v: 'é😀ab' }]));
    expect(message).toBe('Row 2: "v" is too long for character varying(3): it has 4 characters.');
    expect(details).toEqual({ columns: ['v'], type: 'character varying(3)', index: 1 });
  });

  it('are read back as written, for random rows', async () => {
    const { below, pick } = seeded(seed);
    const word = () =>
      pick(['', 'a', 'é😀', '"', '\\', "'", '{', '}', ',', 'null', 'NULL', '\n\t', '__proto__', '\u2028']);
    const words = () => word() + word() + word();
    const some = <T>(one: () => T): (T | null)[] =>
      Array.from({ length: below(4) }, () => (below(5) === 0 ? null : one()));
    const json = (depth = 0): unknown => {
      const kind = below(depth > 2 ? 4 : 6);
      if (kind === 4) return Array.from({ length: below(3) }, () => json(depth + 1));
      if (kind === 5) return JSON.parse(`{${JSON.stringify(words())}: ${JSON.stringify(json(depth + 1))}}`);
      return [words(), below(1e9) - 5e8, below(2) === 1, null][kind];
    };
    const digits = () => `${below(2) ? '-' : ''}${1 + below(1e9)}${below(1e9)}.${below(1e9)}5`;
    const two = (n: number) => String(n).padStart(2, '0');
    const at = () =>
      `20${two(below(99))}-${two(1 + below(12))}-${two(1 + below(28))}T${two(below(24))}:${two(below(60))}:00.${100000 + below(899999)}5`
        .slice(0, -1)
        .replace(/0+$/, '1');
    const pair = () => ({ n: digits(), at: `${at()}Z`, j: json() });
    const columns: Record<string, [string, () => unknown]> = {
      i: ['int', () => below(2 ** 31)],
      b: ['bigint', () => `${below(1e9)}${below(1e9)}`.replace(/^0+(?=.)/, '')],
      n: ['numeric', digits],
      f: ['float8', () => (below(1e6) - 5e5) / 1024],
      t: ['text', words],
      y: ['boolean', () => below(2) === 1],
      at: ['timestamptz', () => `${at()}Z`],
      lo: ['timestamp', () => `${at()}Z`],
      raw: ['bytea', () => `\\x${Buffer.from(words()).toString('hex')}`],
      j: ['jsonb', json],
      o: ['json', json],
      m: ['mood', () => pick(['sad', 'it\'s "ok"', 'happy'])],
      ts: ['text[]', () => some(words)],
      is: ['int[]', () => some(() => below(1000))],
      ns: ['numeric[]', () => some(digits)],
      js: ['jsonb[]', () => some(() => json() ?? 0)],
      tt: [
        'text[]',
        () => [
          [words(), null],
          [null, words()],
        ],
      ],
      p: ['inner_pair', pair],
      ps: ['inner_pair[]', () => some(pair)],
      d: ['tags', () => some(words)],
      h: ['hstore', () => JSON.parse(`{${JSON.stringify(words())}: ${JSON.stringify(word())}}`)],
      '"': ['text', words],
      __proto__x: ['int', () => below(9)],
    };
    const list = Object.entries(columns).map(([name, [type]]) => `"${name.replaceAll('"', '""')}" ${type}`);
    await make(`create table dice (id int primary key, ${list.join(', ')})`);
    const names = Object.keys(columns);
    const few = names.filter((name) => !/^(ts|is|ns|js|tt|p|ps|d)$/.test(name));
    const written: Record<string, unknown>[] = [];
    const row = (from: readonly string[], keys = from.filter(() => below(2) === 0)) => {
      const values = keys.map((name) => [name, below(8) === 0 ? null : columns[name]?.[1]()]);
      // As some client may send them: in any order.
      const entries = [['id', written.length], ...values].sort(() => below(3) - 1);
      const body = Object.fromEntries(entries);
      written.push({ ...Object.fromEntries(names.map((name) => [name, null])), ...body });
      return JSON.stringify(body);
    };
    for (let round = 0; round < 60; round++) {
      const kind = below(4);
      if (kind === 0) await insert('dice', parseJsonText(row(names)));
      else if (kind === 1) await insert('dice', parseJsonText(row(few)));
      else {
        const keys = names.filter(() => below(3) === 0);
        const rows = Array.from({ length: 1 + below(6) }, () => (kind === 2 ? row(names) : row(names, keys)));
        const back = await insert('dice', parseJsonText(`[${rows.join(',')}]`));
        const ids = rows.map((_, index) => String(written.length - rows.length + index));
        expect(
          back.map(({ id }) => id),
          'in the order given',
        ).toEqual(ids);
      }
    }
    for (const [id] of written.entries()) {
      if (below(3) > 0) continue;
      const changes = JSON.parse(row(names)) as Record<string, unknown>;
      written.pop();
      delete changes.id;
      if (Object.keys(changes).length === 0) continue;
      Object.assign(written[id] as object, changes);
      await update('dice', parseJsonText(JSON.stringify(changes)), `id=eq.${id}`);
    }
    const rows = await query('select * from dice order by id', 'string');
    for (const [index, found] of rows.entries()) expect(found, `row ${index}`).toEqual(written[index]);
    expect(rows).toHaveLength(written.length);
  });
});

describe('a column that is left out', () => {
  beforeAll(async () => {
    await make(`
      create domain known as int not null;
      create table people (
        id bigint generated always as identity primary key,
        other int generated by default as identity,
        serial_no serial,
        name text not null default 'nobody',
        at timestamptz default '2026-01-01',
        shout text generated always as (upper(name)) stored,
        twice int generated always as (other * 2) virtual,
        must known default 7,
        note text);
    `);
  });

  it('gets its default, never null', async () => {
    const [row] = await insert('people', {});
    expect(row).toEqual({
      id: '1',
      other: '1',
      serial_no: '1',
      name: 'nobody',
      at: '2026-01-01 00:00:00+00',
      shout: 'NOBODY',
      twice: '2',
      must: '7',
      note: null,
    });
    const rows = await insert('people', [
      {},
      {},
      { note: 'a' },
      { note: 'b', other: 70 },
      { other: 80, note: null },
      {},
    ]);
    expect(
      rows.map(({ id, other, name, note, twice, must }) => [id, other, name, note, twice, must]),
    ).toEqual([
      ['2', '2', 'nobody', null, '4', '7'],
      ['3', '3', 'nobody', null, '6', '7'],
      ['4', '4', 'nobody', 'a', '8', '7'],
      ['5', '70', 'nobody', 'b', '140', '7'],
      ['6', '80', 'nobody', null, '160', '7'],
      ['7', '5', 'nobody', null, '10', '7'],
    ]);
    expect(await insert('people', [])).toEqual([]);
  });

  it('starts a new statement only where the keys of the rows change', async () => {
    const table = await get('people');
    const texts = (body: unknown) => compileInsert(table, body, plainInsert).map(({ text }) => text);
    const [a, b, c] = texts([
      { note: '1', name: 'x' },
      { name: 'y', note: '2' },
      { note: '3' },
      { note: '4' },
      {},
      {},
    ]);
    expect(
      texts([{ name: 'z', note: '9' }, { note: '', name: '' }, { note: 'x' }, { note: 'y' }, {}, {}, {}]),
    ).toEqual([a, b, c]);
    expect(texts({ note: '1', name: 'x' }), 'keys in any order').toEqual(
      texts({ name: 'other', note: null }),
    );
    expect(texts([{ note: '1' }]), 'a single row is a single row').toEqual(texts({ note: '1' }));
    const many = Array.from({ length: 1001 }, (_, index) => (index % 2 ? { note: 'x' } : { name: 'x' }));
    expect(compileInsert(table, many.slice(1), plainInsert)).toHaveLength(1000);
    const error = await refused(insert('people', many));
    expect([error.status, error.code, error.details]).toEqual([
      400,
      'invalid_request',
      [{ path: '1000', problem: 'the set of keys changes more than 1000 times from row to row' }],
    ]);
  });

  it('keeps the insert all or nothing', async () => {
    const before = await query('select count(*) from people');
    const error = await refused(insert('people', [{ note: 'kept?' }, { name: null }]));
    expect(error).toMatchObject({ status: 422, message: 'Row 2: "name" must not be null.' });
    expect(await query('select count(*) from people')).toEqual(before);
  });

  it('does not change the order of the returned rows', async () => {
    await make('create table ordered (n int, seq serial, tag int[])');
    await make('create index on ordered (n); create index on ordered (n desc)');
    const given = Array.from({ length: 3000 }, (_, index) => ({ n: (index * 7919) % 3000, tag: [index] }));
    const rows = await insert('ordered', given);
    expect(rows.map(({ n }) => Number(n))).toEqual(given.map(({ n }) => n));
    expect(rows.every(({ seq }, index) => seq === String(index + 1))).toBe(true);
    await make(`
      create table parted (n int, seq serial) partition by list (n);
      create table parted_0 partition of parted for values in (0, 2, 4);
      create table parted_1 partition of parted default;`);
    const parts = await insert(
      'parted',
      Array.from({ length: 50 }, (_, index) => ({ n: (index * 3) % 7 })),
    );
    expect(parts.map(({ seq }) => Number(seq))).toEqual(Array.from({ length: 50 }, (_, index) => index + 1));
  });

  it('is reported before anything runs if it is required', async () => {
    await make(
      'create table strict (id serial primary key, email text not null, age int not null, note text)',
    );
    const error = await refused(insert('strict', { note: 'x' }));
    expect(error).toMatchObject({
      status: 422,
      code: 'constraint_violation',
      message: '"email", "age" of "strict" are required: they must not be null and have no default.',
      details: { columns: ['email', 'age'] },
    });
    const second = await refused(insert('strict', [{ email: 'a', age: 1 }, { email: 'b' }]));
    expect(second.details).toEqual({ columns: ['age'], index: 1 });
    expect(await insert('strict', { email: 'a', age: 1 }), 'no number was used up').toMatchObject([
      { id: '1' },
    ]);
  });

  it("may still be filled by a trigger or a domain's default", async () => {
    await make(`
      create function fill() returns trigger language plpgsql as $$ begin new.made := 'by trigger'; return new; end $$;
      create table filled (id int, made text not null);
      create trigger fill before insert on filled for each row when (new.made is null) execute function fill();
      create domain word as text default 'by domain';
      create table worded (id int, w word not null);
    `);
    expect(await insert('filled', { id: 1 })).toEqual([{ id: '1', made: 'by trigger' }]);
    expect(await insert('worded', [{ id: 1 }, { id: 2 }])).toMatchObject([
      { w: 'by domain' },
      { w: 'by domain' },
    ]);
    await make(
      'drop trigger fill on filled; create trigger t after insert on filled for each row execute function fill()',
    );
    const error = await refused(insert('filled', { id: 1 }));
    expect(error).toMatchObject({
      status: 422,
      message: '"made" is required: it must not be null and has no default.',
      sql: { state: '23502', column: 'made' },
    });
  });
});

describe('the answer to a write', () => {
  beforeAll(() => make('create table shown (id serial primary key, name text, data jsonb, tags text[])'));

  it('has the columns that select names', async () => {
    const select = readSelect('key:id,name::varchar(2),color:data->>color,data->list');
    const row = { name: 'abc', data: { color: 'red', list: [1] } };
    expect(await insert('shown', row, { select })).toEqual([
      { key: '1', name: 'ab', color: 'red', list: '[1]' },
    ]);
    expect(await insert('shown', [row, row], { select: readSelect('id') })).toEqual([
      { id: '2' },
      { id: '3' },
    ]);
    expect(await update('shown', { name: 'z' }, 'id=eq.1&select=id,name')).toEqual([{ id: '1', name: 'z' }]);
    expect(await remove('shown', 'id=eq.1&select=name')).toEqual([{ name: 'z' }]);
    const error = await refused(insert('shown', row, { select: readSelect('id,nam') }));
    expect([error.status, error.message]).toEqual([
      400,
      'select: "shown" has no column "nam"; the nearest is "name"',
    ]);
    expect((await refused(insert('shown', row, { select: readSelect('id,x:id,x:name') }))).status).toBe(400);
    expect((await refused(insert('shown', row, { select: readSelect('id,shown(id)') }))).status).toBe(400);
  });

  it('is empty on request', async () => {
    const table = await get('shown');
    const options = { ...plainInsert, returning: 'minimal' } as const;
    const one = compileInsert(table, { name: 'x' }, options);
    expect(one).toMatchObject([{ columns: [], hidden: 1 }]);
    const many = compileInsert(table, [{ name: 'x' }, { name: 'y' }], options);
    expect(many).toMatchObject([{ columns: [], hidden: 0 }]);
    expect(many[0]?.text).not.toContain('returning');
    expect(await run([...one, ...many])).toEqual([{}]);
    expect(await update('shown', { name: 'q' }, 'name=eq.y', 'minimal')).toEqual([]);
    expect(await remove('shown', 'name=eq.q', 'minimal')).toEqual([]);
    expect(await query("select count(*) from shown where name in ('y', 'q')")).toEqual([{ count: 0 }]);
  });

  it('says whether a session stays clean', async () => {
    const judge = async (name: string, body: unknown, select = allColumns) => {
      const [one] = compileInsert(await get(name), body, { ...plainInsert, select });
      return one?.isPlain;
    };
    expect(await judge('shown', { name: 'x' })).toBe(true);
    expect(await judge('shown', { name: 'x' }, readSelect('name::mood'))).toBe(false);
    expect(await judge('filled', { id: 1, made: 'x' })).toBe(false);
    expect(await judge('ordered', [{ tag: ['a'] }])).toBe(true);
    const change = compileUpdate(await get('shown'), { name: 'x' }, readChangeRequest('id=eq.1', []), 'row');
    expect(change.isPlain).toBe(true);
  });
});

describe('unusual names', () => {
  const names = [
    'a "b"',
    'a.b',
    'select',
    'Größe 😀',
    "it's",
    '$1',
    't0',
    'r',
    'excluded',
    '__proto__',
    'constructor',
    '../x',
    ' ',
    'a,b',
  ];
  const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

  it.each(['weird "table"', 'order', 'a.b.c', 'Tëst 😀', "';--", '__proto__'])('%s', async (table) => {
    await make(
      `create table ${quoted(table)} (id int primary key, ${names.map((name) => `${quoted(name)} text`).join(', ')}, l int[], unique (${quoted('a "b"')}))`,
    );
    const entries = names.map((name, index) => `${JSON.stringify(name)}: "v${index}"`).join(', ');
    const row = (id: number, more = '') =>
      parseJsonText(`{"id": ${id}, ${entries}${more}}`) as Record<string, unknown>;
    const merge = { resolution: 'merge' } as const;
    const [first] = await insert(table, row(1));
    expect(Object.entries(first ?? {}).slice(1, -1)).toEqual(names.map((name, index) => [name, `v${index}`]));
    await insert(table, [row(1, ', "l": [1]')], merge);
    await insert(table, [row(1), row(1)].slice(1), { ...merge, onConflict: ['a "b"'] });
    const change = parseJsonText(`{${entries}, "l": [2]}`);
    const [changed] = await update(
      table,
      change,
      `${encodeURIComponent('"a \\"b\\""')}=eq.v0&"__proto__"=eq.v9`,
    );
    expect(changed?.l).toBe('{2}');
    expect(Object.getOwnPropertyDescriptor(changed, '__proto__')?.value).toBe('v9');
    expect(await remove(table, 'id=eq.1&select=id')).toEqual([{ id: '1' }]);
  });

  it('of another schema work', async () => {
    await make(`
      create schema "my shop"; create type "my shop"."Kind" as enum ('x', 'y');
      create table "my shop"."orders" (id int primary key, kind "my shop"."Kind", kinds "my shop"."Kind"[])`);
    const rows = [
      { id: 1, kind: 'x', kinds: ['x', 'y'] },
      { id: 2, kind: null, kinds: null },
    ];
    expect(await insert('my shop.orders', rows)).toMatchObject([{ kinds: '{x,y}' }, { kinds: null }]);
    expect(await update('my shop.orders', { kinds: ['y'] }, 'id=eq.2')).toMatchObject([{ kinds: '{y}' }]);
  });
});

describe('an upsert of existing rows', () => {
  beforeAll(async () => {
    await make(`
      create table stock (id int primary key, sku text unique, n int default 1, note text, unique (n, note));
      create table keyless (a int, b int);
      create table by_name (name text unique, n int);
      create table counted (id int generated always as identity primary key, n int);
      create table late (id int primary key deferrable);
    `);
  });
  const merge = { resolution: 'merge' } as const;
  const ignore = { resolution: 'ignore' } as const;

  it('changes the given columns and keeps the others', async () => {
    await insert('stock', [
      { id: 1, sku: 'a', note: 'first' },
      { id: 2, sku: 'b', note: 'second' },
    ]);
    expect(await insert('stock', { id: 1, n: 5 }, merge)).toEqual([
      { id: '1', sku: 'a', n: '5', note: 'first' },
    ]);
    const rows = await insert(
      'stock',
      [
        { id: 3, n: 7 },
        { id: 2, n: 6 },
        { id: 1, note: null },
      ],
      merge,
    );
    expect(rows.map(({ id, n, note }) => [id, n, note])).toEqual([
      ['3', '7', null],
      ['2', '6', 'second'],
      ['1', '5', null],
    ]);
    expect(
      await insert('stock', { sku: 'b', note: 'x', id: 99 }, { ...merge, onConflict: ['sku'] }),
    ).toMatchObject([{ id: '99', sku: 'b', note: 'x', n: '6' }]);
    expect(await insert('stock', { id: 1 }, merge), 'nothing to change').toMatchObject([
      { id: '1', sku: 'a' },
    ]);
    expect(await insert('stock', [{ id: 1 }, { id: 50 }], merge)).toMatchObject([{ id: '1' }, { id: '50' }]);
    const pair = { note: 'pair', n: 1 };
    await insert('stock', { ...pair, id: 60 });
    expect(
      await insert('stock', { ...pair, id: 60, sku: 'p' }, { ...merge, onConflict: ['note', 'n'] }),
    ).toMatchObject([{ id: '60', sku: 'p' }]);
  });

  it('can leave them unchanged, and then does not return them', async () => {
    await insert('stock', { id: 70, note: 'seventy' });
    expect(await insert('stock', { id: 70, note: 'new' }, ignore)).toEqual([]);
    expect(
      await insert(
        'stock',
        [
          { id: 70, note: 'new' },
          { id: 71, note: 'new' },
        ],
        ignore,
      ),
    ).toMatchObject([{ id: '71' }]);
    expect(await query('select note from stock where id = 70')).toEqual([{ note: 'seventy' }]);
    expect(await insert('counted', [{}, {}], merge)).toHaveLength(2);
    expect(await insert('counted', { n: 1 }, ignore)).toHaveLength(1);
  });

  it.each([
    [
      'stock',
      { onConflict: ['n'], resolution: 'merge' },
      'on_conflict: these columns are not a primary or unique key of "stock"; its keys: id or sku or n,note',
    ],
    ['stock', { onConflict: ['id', 'id'], resolution: 'merge' }, /not a primary or unique key/],
    ['stock', { onConflict: [], resolution: 'merge' }, /not a primary or unique key/],
    ['stock', { onConflict: ['skuu'], resolution: 'ignore' }, /no column "skuu"; the nearest is "sku"/],
    ['stock', { onConflict: ['__proto__'], resolution: 'ignore' }, /no column "__proto__"/],
    ['stock', { onConflict: ['id'] }, /resolution=merge or resolution=ignore/],
    ['keyless', { resolution: 'merge' }, 'resolution: "keyless" has no primary key or unique key'],
    ['keyless', { onConflict: ['a'], resolution: 'merge' }, /has no primary or unique key/],
    ['by_name', { resolution: 'merge' }, /no primary key; use a unique key: on_conflict=name/],
  ] as const)('%s %j', async (table, options, message) => {
    const error = await refused(insert(table, {}, options));
    expect(error.status).toBe(400);
    if (typeof message === 'string') expect(error.message).toBe(message);
    else expect(error.message).toMatch(message);
  });

  it('refuses the same key twice', async () => {
    const error = await refused(
      insert(
        'stock',
        [
          { id: 80, n: 1 },
          { id: 80, n: 2 },
        ],
        merge,
      ),
    );
    expect([error.status, error.sql?.state]).toEqual([400, '21000']);
    expect(error.message).toMatch(/^Two of the rows have the same key/);
    expect((await refused(insert('late', { id: 1 }, merge))).sql?.state).toBe('55000');
  });
});

describe('changing and deleting', () => {
  beforeAll(() =>
    make(
      "create table items (id int primary key, name text, n int, tags text[]); insert into items select n, 'n' || n, n from generate_series(1, 20) as n",
    ),
  );

  it('affects the rows that match the filter', async () => {
    expect(await update('items', { name: 'small' }, 'n=lt.3&or=(id.eq.1,id.eq.2,id.eq.3)')).toMatchObject([
      { name: 'small' },
      { name: 'small' },
    ]);
    expect(
      await update('items', { n: null, tags: ['a'], name: "x'; drop table items --" }, 'id=eq.3'),
    ).toMatchObject([{ n: null, tags: '{a}', name: "x'; drop table items --" }]);
    expect(await update('items', { n: 5 }, 'id=eq.999')).toEqual([]);
    expect(await remove('items', 'id=in.(1,2)&select=id')).toEqual([{ id: '1' }, { id: '2' }]);
    expect(await query('select count(*) from items')).toEqual([{ count: 18 }]);
  });

  it('compiles to the same text for every value', async () => {
    const table = await get('items');
    const text = (body: unknown, filter: string) =>
      compileUpdate(table, body, readChangeRequest(filter, []), 'row').text;
    expect(text({ n: 1, tags: null }, 'id=eq.1')).toBe(text({ tags: ['x'], n: null }, 'id=eq.2'));
  });

  it('is refused without a filter', async () => {
    const error = await refused(remove('items', 'select=id'));
    expect(error).toMatchObject({ status: 400, code: 'invalid_request' });
    expect(error.hint).toBe('To change all rows, send a filter that matches all of them: ?id=not.is.null');
    expect((await refused(update('items', { n: 1 }, ''))).status).toBe(400);
    expect(await query('select count(*) from items where n = 1')).toEqual([{ count: 0 }]);
    for (const table of [
      'create table hinted ("a ""b.c" int primary key)',
      'create table hinted (a int)',
      'create table hinted ("or" int not null)',
    ]) {
      await make(`drop table if exists hinted; ${table}; insert into hinted values (1), (2)`);
      const { hint = '' } = await refused(remove('hinted', ''));
      const filter = hint.slice(hint.indexOf('?') + 1);
      expect(await remove('hinted', filter), filter).toHaveLength(2);
    }
  });

  it.each([
    [{}, /must contain at least one column/],
    [[], /must be a JSON object/],
    [[{ n: 1 }], /must be a JSON object/],
    [null, /must be a JSON object/],
    ['x', /must be a JSON object/],
    [{ nn: 1 }, /nn: "items" has no column "nn"; the nearest is "n"/],
  ])('not with %j', async (body, message) => {
    const error = await refused(update('items', body, 'id=eq.5'));
    expect(error.status).toBe(400);
    expect(error.message).toMatch(message);
  });
});

describe('writing to views', () => {
  beforeAll(async () => {
    await make(`
      create table base (id int primary key, name text, n int);
      create view simple as select id, name, n * 2 as double from base;
      create view positive as select id, n from base where n > 0 with check option;
      create view joined as select b.id from base b join base c using (id);
      create view triggered as select b.id from base b join base c using (id);
      create function insert_base() returns trigger language plpgsql as $$ begin insert into base (id) values (new.id); return new; end $$;
      create trigger t instead of insert on triggered for each row execute function insert_base();
      create materialized view counted_base as select count(*) from base;
      create view ruled as select id from base;
      create rule r as on insert to ruled do instead nothing;
    `);
  });

  it('works where PostgreSQL can write through them', async () => {
    expect(await insert('simple', { id: 1, name: 'a' })).toEqual([{ id: '1', name: 'a', double: null }]);
    expect(await insert('simple', [{ id: 2 }, { id: 3 }])).toHaveLength(2);
    expect(await update('simple', { name: 'b' }, 'id=eq.2')).toMatchObject([{ name: 'b' }]);
    expect(await remove('simple', 'id=eq.3')).toHaveLength(1);
    expect(await insert('triggered', { id: 9 })).toEqual([{ id: '9' }]);
    expect((await refused(insert('simple', { id: 5, double: 4 }))).sql?.state).toBe('0A000');
    expect((await refused(insert('positive', { id: 5, n: -1 }))).sql?.state).toBe('44000');
    expect((await refused(insert('ruled', { id: 5 }))).sql?.state).toBe('0A000');
  });

  it.each([
    ['joined', 'insert', ['GET'], /the view "joined"/],
    ['joined', 'delete', ['GET'], /cannot delete through the view "joined"/],
    ['triggered', 'update', ['GET', 'POST'], /cannot update/],
    ['counted_base', 'insert', ['GET'], /materialized view/],
  ])('%s does not take %s', async (name, verb, allowed, message) => {
    const doing =
      verb === 'insert'
        ? insert(name, {})
        : verb === 'update'
          ? update(name, { id: 1 }, 'id=eq.1')
          : remove(name, 'id=eq.1');
    const error = await refused(doing);
    expect(error).toMatchObject({ status: 405, code: 'method_not_allowed', details: { allowed } });
    expect(error.message).toMatch(message);
    expect(error.hint).toBeTruthy();
  });
});

describe('hostile input', () => {
  beforeAll(() =>
    make(
      'create table target (id serial primary key, t text, j jsonb, l text[], p inner_pair, ps inner_pair[], h hstore)',
    ),
  );
  const bad = async (body: unknown) => {
    const error = await refused(insert('target', body));
    expect(error.status, error.message).toBe(400);
    return error.message;
  };

  it('that is not a row is refused', async () => {
    for (const body of [
      null,
      1,
      'x',
      true,
      parseJsonText('[12345678901234567890]'),
      [null],
      [[]],
      [{}, 5],
      undefined,
    ]) {
      expect(await bad(body)).toMatch(/must be a JSON object/);
    }
  });

  it('with keys that are not columns is refused', async () => {
    for (const name of [
      '__proto__',
      'constructor',
      'toString',
      'hasOwnProperty',
      '',
      'T',
      'id\0',
      'ctid',
      'x'.repeat(100_000),
      '"t"',
    ]) {
      expect(await bad(parseJsonText(`{${JSON.stringify(name)}: 1}`))).toMatch(/has no column/);
      expect(await bad(parseJsonText(`[{"t": "x"}, {${JSON.stringify(name)}: 1}]`))).toMatch(
        /^1\..* has no column/s,
      );
    }
    await bad(Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`k${index}`, index])));
    const own = parseJsonText('{"t": "x", "__proto__": {"j": 1}}');
    expect(await bad(own)).toMatch(/has no column "__proto__"/);
    expect(await bad({ p: { n: 1, nn: 2 } })).toBe('p: the type has no attribute "nn"; the nearest is "n"');
    expect(await bad([{ ps: [{ n: 1 }, { __proto_: 2 }] }])).toMatch(/^0\.ps: the type has no attribute/);
  });

  it('with NUL characters is refused', async () => {
    expect(await bad({ t: 'a\0b' })).toBe(
      't: must not contain a NUL character, which PostgreSQL does not support',
    );
    expect(await bad([{ t: 'a' }, { t: 'a\0b' }])).toMatch(/^1\.t: must not contain a NUL/);
    expect(await bad({ h: { 'a\0': 'b' } })).toMatch(/^h: must not contain a NUL/);
    for (const body of [
      { j: 'a\0' },
      { j: { k: ['\0'] } },
      { l: ['\0'] },
      [
        { t: 'x', j: '\0' },
        { t: 'y', j: 1 },
      ],
    ]) {
      const error = await refused(insert('target', body));
      expect([error.status, error.sql?.state]).toEqual([422, '22P05']);
      expect(error.message).toMatch(/^(Row 1: )?"[jl]" contains a NUL character/);
    }
  });

  it('that is nested too deep is refused', async () => {
    const deep = (levels: number) => JSON.parse('['.repeat(levels) + ']'.repeat(levels));
    for (const name of ['j', 'l', 't', 'ps', 'p', 'h', 'id']) {
      for (const body of [{ [name]: deep(100_000) }, [{ [name]: deep(100_000) }, { [name]: 1 }]]) {
        expect(await bad(body)).toMatch(/nested too deeply/);
      }
    }
    expect((await refused(update('target', { j: deep(100_000) }, 'id=eq.1'))).status).toBe(400);
    // Within reach of JSON.stringify and beyond that of PostgreSQL's stack.
    const error = await insert('target', { j: deep(5_000) }).catch((thrown) => thrown);
    if (error instanceof RowhouseError) expect(error.status).toBeLessThan(500);
    expect(await insert('target', { j: deep(500), t: 'still there' })).toHaveLength(1);
  });

  it('with 1,600 columns works', async () => {
    const names = Array.from({ length: 1600 }, (_, index) => `c${index}`);
    await make(`create table wide (${names.map((name) => `${name} int`).join(', ')})`);
    const row = Object.fromEntries(names.map((name, index) => [name, index]));
    const [one] = await insert('wide', row);
    expect(one?.c1599).toBe('1599');
    expect(await insert('wide', [row, row], { returning: 'minimal' })).toEqual([]);
    expect(await insert('wide', [row, row], { select: readSelect('c7') })).toEqual([
      { c7: '7' },
      { c7: '7' },
    ]);
    expect(await update('wide', row, 'c0=eq.0&select=c1')).toHaveLength(5);
    expect((await refused(insert('wide', { ...row, c1600: 1 }))).message).toMatch(/nearest is "c/);
  });

  it('with too many values for PostgreSQL is refused by name', async () => {
    for (const doing of [
      (body: object) => insert('people', body),
      (body: object) => insert('people', [body]),
      (body: object) => update('people', body, 'id=eq.1'),
    ]) {
      const always = await refused(doing({ id: 5 }));
      expect(always).toMatchObject({ status: 400 });
      expect(always.message).toMatch(/"?id"?: is an identity column .* omit it/);
      expect(always.hint).toMatch(/GENERATED BY DEFAULT/);
      expect((await refused(doing({ shout: 'x' }))).message).toMatch(/shout: is a generated column/);
      expect((await refused(doing({ twice: 1 }))).status).toBe(400);
    }
  });
});

describe('errors of writes', () => {
  beforeAll(async () => {
    await make(`
      create table authors (id int primary key, "Full Name" text);
      create domain percent as int check (value between 0 and 100);
      create table books (
        id int primary key, isbn text constraint one_isbn unique, author int references authors, pages int check (pages > 0), share percent,
        price numeric(5,2), code varchar(4), sold boolean, at timestamptz, day date, mood mood, u uuid, l int[], pair inner_pair, data jsonb,
        q tsquery, raw bytea, parent int references books, "a b" int, "C" int, unique ("a b", "C"), small smallint);
      insert into authors values (1), (2);
      insert into books (id, isbn, author, "a b", "C") values (1, 'x', 1, 1, 1);
    `);
  });

  it.each([
    [
      { pages: 'abc' },
      '"pages": "abc" does not fit integer.',
      'Send an integer from -2147483648 to 2147483647.',
    ],
    [{ pages: 1.5 }, '"pages": 1.5 does not fit integer.', /an integer/],
    [{ pages: { a: 1 } }, /^"pages": the object does not fit integer: invalid input syntax/, /an integer/],
    [{ pages: 3_000_000_000 }, '"pages": 3000000000 is out of range for integer.', /an integer/],
    [{ small: '40000' }, '"small": "40000" is out of range for smallint.', /-32768/],
    [{ price: 12345 }, '"price": 12345 is out of range for numeric(5,2).', undefined],
    [{ code: 'abcdef' }, '"code" is too long for character varying(4): it has 6 characters.', undefined],
    [{ sold: 'maybe' }, '"sold": "maybe" does not fit boolean.', 'Send true or false.'],
    [{ at: 'soon' }, '"at": "soon" does not fit timestamp with time zone.', /2026-11-15T09:30:00Z/],
    [{ day: '2026-13-45' }, '"day": "2026-13-45" does not fit date.', /a date such as/],
    [{ mood: 'mad' }, '"mood": "mad" does not fit mood.', 'Send one of sad, it\'s "ok", happy.'],
    [{ u: 'x' }, '"u": "x" does not fit uuid.', /a UUID/],
    [{ u: 'y'.repeat(10_000) }, /^"u": "y{80}…" does not fit uuid\.$/, /a UUID/],
    [
      { l: [1, 'x'] },
      '"l": the array does not fit integer[]: invalid input syntax for type integer: "x"',
      'Send a JSON array.',
    ],
    [{ l: 'x' }, /^"l": "x" does not fit integer\[\]/, 'Send a JSON array.'],
    [
      { pair: { n: 'x' } },
      /^"pair": the object does not fit inner_pair: .*"x"/,
      'Send a JSON object with "n", "at", "j".',
    ],
  ])('%j', async (body, message, hint) => {
    for (const doing of [
      () => insert('books', { id: 5, ...body }),
      () =>
        insert('books', [
          { id: 4, ...Object.fromEntries(Object.keys(body).map((name) => [name, null])) },
          { id: 5, ...body },
        ]),
      () => update('books', body, 'id=eq.1'),
    ]) {
      const error = await refused(doing());
      expect([error.status, error.code]).toEqual([422, 'constraint_violation']);
      const text = error.message.replace(/^Row 2: /, '');
      if (typeof message === 'string') expect(text).toBe(message);
      else expect(text).toMatch(message);
      if (hint instanceof RegExp) expect(error.hint).toMatch(hint);
      else expect(error.hint).toBe(hint);
      expect(error.details).toMatchObject({ columns: Object.keys(body) });
      expect(error.sql?.state).toMatch(/^22/);
      expect(Object.keys(error.sql ?? {}), 'CONTEXT is not passed on').not.toContain('where');
    }
  });

  it('are clear also where PostgreSQL has another code or does not quote the value', async () => {
    const one = await refused(insert('books', { id: 5, raw: '\\xzz' }));
    expect([one.status, one.message]).toEqual([
      422,
      '"raw": "\\\\xzz" does not fit bytea: invalid hexadecimal digit: "z"',
    ]);
    const many = await refused(insert('books', [{ raw: null }, { raw: '\\xzz' }]));
    expect([many.status, many.message]).toEqual([422, 'invalid hexadecimal digit: "z"']);
    const query = await refused(insert('books', { id: 5, q: 'a b' }));
    expect([query.status, query.sql?.state]).toEqual([400, '42601']);
    expect(query.message).toMatch(/^"q": "a b" does not fit tsquery: /);
  });

  it('say which of many rows failed', async () => {
    const rows = Array.from({ length: 100 }, (_, index) => ({
      id: 100 + index,
      pages: 1,
      isbn: `n${index}`,
      day: '2026-01-01' as unknown,
    }));
    (rows[41] as (typeof rows)[0]).day = 'x';
    (rows[41] as (typeof rows)[0]).isbn = 'x';
    const error = await refused(insert('books', rows));
    expect(error.message).toBe('Row 42: "day": "x" does not fit date.');
    expect(error.details).toEqual({ columns: ['day'], type: 'date', index: 41 });
  });

  it('name no column that may not be the cause', async () => {
    const error = await refused(
      insert('books', [
        { id: 1, pages: 'x', small: 2 },
        { id: 2, pages: 3, small: 'x' },
      ]),
    );
    expect(error.message, 'told apart by the type').toMatch(/^Row 1: "pages"/);
    const filter = await refused(update('books', { day: '2026-01-01', pages: 5 }, 'id=eq.x'));
    expect(filter.message).toBe('invalid input syntax for type integer: "x"');
    const unsure = compileUpdate(await get('books'), { pages: 'x' }, readChangeRequest('id=eq.x', []), 'row');
    const sql = { state: '22P02' };
    const given = new RowhouseError('constraint_violation', 'invalid input syntax for type integer: "x"', {
      sql,
    });
    expect(explainWriteError(given, unsure).message).toBe(given.message);
    expect(explainWriteError(given, unsure, 'unnamed portal parameter $2').message).toMatch(/^"pages"/);
    expect(explainWriteError(given, unsure, 'unnamed portal parameter $1').message).toBe(given.message);
    const odd = { pages: { toString: 1, valueOf: null } };
    const change = compileUpdate(await get('books'), odd, readChangeRequest('id=eq.1', []), 'row');
    expect(explainWriteError(given, change).message).toMatch(/^"pages": the object does not fit integer/);
  });

  it('name the constraint', async () => {
    const told = async (doing: Promise<unknown>) => {
      const { status, code, message, details, hint } = await refused(doing);
      return { status, code, message, details, hint };
    };
    const here = { status: 409, code: 'conflict' };
    const rule = { status: 422, code: 'constraint_violation' };
    expect(await told(insert('books', { id: 2, isbn: 'x' }))).toEqual({
      ...here,
      message: 'A row with this "isbn" already exists ("one_isbn").',
      details: { retryable: false, constraint: 'one_isbn', columns: ['isbn'] },
      hint: 'To update that row, send on_conflict=isbn with resolution=merge. To keep it, send resolution=ignore.',
    });
    expect(await told(insert('books', [{ id: 8 }, { id: 1 }]))).toMatchObject({
      ...here,
      message: 'A row with this "id" already exists ("books_pkey").',
    });
    expect(await told(insert('books', { id: 2, 'a b': 1, C: 1 }))).toMatchObject({
      ...here,
      details: { columns: ['a b', 'C'] },
    });
    await insert('books', { id: 20, isbn: 'y' });
    expect(await told(update('books', { isbn: 'x' }, 'id=eq.20'))).toMatchObject({
      ...here,
      hint: undefined,
    });
    expect(await told(insert('books', { id: 2, author: 77 }))).toEqual({
      ...rule,
      message: '"author" must reference "id" of an existing row of "authors" ("books_author_fkey").',
      details: { constraint: 'books_author_fkey', columns: ['author'], table: 'authors' },
      hint: 'Key (author)=(77) is not present in table "authors".',
    });
    expect(await told(remove('authors', 'id=eq.1'))).toEqual({
      ...rule,
      message: 'Rows of "books" still reference it by "author" ("books_author_fkey").',
      details: { constraint: 'books_author_fkey', table: 'books', columns: ['author'] },
      hint: 'Change or delete those rows first.',
    });
    expect(await told(insert('books', { id: 2, parent: 999 }))).toMatchObject({
      message: expect.stringMatching(/^"parent" must reference "id" of an existing row of "books"/),
    });
    await insert('books', { id: 21, parent: 20 });
    expect(await told(remove('books', 'id=eq.20'))).toMatchObject({
      message: expect.stringMatching(/^Rows of "books" still reference it by "parent"/),
    });
    expect(await told(insert('books', { id: 2, pages: 0 }))).toMatchObject({
      ...rule,
      message: 'The row violates the check constraint "books_pages_check" of "books".',
      details: { constraint: 'books_pages_check' },
    });
    expect(await told(insert('books', { id: 2, share: 101 }))).toMatchObject({
      ...rule,
      message:
        '"share" does not accept 101: value for domain percent violates check constraint "percent_check"',
      details: { columns: ['share'], constraint: 'percent_check' },
    });
    expect(await told(insert('books', { id: null }))).toMatchObject({
      ...rule,
      message: '"id" must not be null.',
      details: { columns: ['id'] },
    });
    expect(await told(update('books', { id: null }, 'id=eq.1'))).toMatchObject({
      message: '"id" must not be null.',
    });
  });

  it('about other tables are passed on from PostgreSQL', async () => {
    await make(`
      create table log (id int primary key);
      create function to_log() returns trigger language plpgsql as $$ begin insert into log values (1); return new; end $$;
      create table logged (id int primary key);
      create trigger t after insert on logged for each row execute function to_log();
    `);
    await insert('logged', { id: 1 });
    const error = await refused(insert('logged', { id: 2 }));
    expect(error).toMatchObject({ status: 409, sql: { table: 'log', constraint: 'log_pkey' } });
    expect(error.message).toMatch(/duplicate key value/);
    await make(`
      create or replace function to_log() returns trigger language plpgsql as
      $$ begin raise exception 'no "sad" on mondays' using errcode = '22023', hint = 'Smile.'; end $$;
      alter table logged add mood mood`);
    for (const body of [
      { id: 3, mood: 'sad' },
      [
        { id: 3, mood: 'sad' },
        { id: 4, mood: 'sad' },
      ],
    ]) {
      expect(await refused(insert('logged', body))).toMatchObject({
        status: 422,
        message: 'no "sad" on mondays',
        sql: { hint: 'Smile.' },
      });
    }
  });
});

describe('a table that has changed is noticed before anything is written', () => {
  const fresh = `
    drop table if exists kept cascade; drop type if exists spot cascade; create type spot as (x int, y int);
    create table kept (id serial primary key, name text, n int, l int[], p spot);
    insert into kept (name) select 'n' || n from generate_series(1, 50) as n;`;
  const kinds: [string, (table: Awaited<ReturnType<typeof get>>) => CompiledWrite | undefined][] = [
    ['one row', (table) => compileInsert(table, { name: 'new' }, plainInsert)[0]],
    ['no columns', (table) => compileInsert(table, {}, plainInsert)[0]],
    [
      'one row, nothing back',
      (table) => compileInsert(table, { name: 'new' }, { ...plainInsert, returning: 'minimal' })[0],
    ],
    [
      'a merge',
      (table) => compileInsert(table, { id: 1, name: 'new' }, { ...plainInsert, resolution: 'merge' })[0],
    ],
    [
      'many rows',
      (table) =>
        compileInsert(table, [{ name: 'new' }, { name: 'new' }], { ...plainInsert, returning: 'minimal' })[0],
    ],
    [
      'many rows of defaults',
      (table) => compileInsert(table, [{}, {}], { ...plainInsert, select: readSelect('id') })[0],
    ],
    ['an array', (table) => compileInsert(table, { name: 'new', l: [1] }, plainInsert)[0]],
    [
      'an update',
      (table) => compileUpdate(table, { name: 'new' }, readChangeRequest('id=lt.5', []), 'minimal'),
    ],
    ['a delete', (table) => compileDelete(table, readChangeRequest('name=eq.new', []), 'minimal')],
  ];

  /** Often enough to have a plan of its own. */
  async function prepare(compiled: CompiledWrite | undefined) {
    if (!compiled) throw new Error('nothing compiled');
    const doing = () =>
      other.run(compiled.text, compiled.params as (string | null)[]).then(
        () => 'ran',
        (error) => error.code as string,
      );
    for (let round = 0; round < 8; round++) expect(await doing()).toBe('ran');
    return doing;
  }
  const state = async () => {
    const [found] = await session.run(
      "select count(*), count(*) filter (where name = 'new'), (select last_value from kept_id_seq) from kept",
    );
    return found;
  };

  it.each(kinds)('%s', async (_label, compile) => {
    for (const change of [
      'alter table kept add more int',
      'alter table kept alter n set default 5',
      'create trigger t before insert on kept for each row execute function fill()',
      'create unique index on kept (n)',
      'alter table kept enable row level security',
      'alter table kept add check (n > 0) not valid',
      'alter table kept rename to was; create table kept (id serial primary key, name text, n int, l int[], p spot)',
    ]) {
      await make(`drop table if exists was cascade; ${fresh}`);
      const doing = await prepare(compile(await get('kept')));
      await make(change);
      const before = await state();
      expect(await doing(), change).toBe('RH001');
      expect(await doing(), 'and stays noticed').toBe('RH001');
      expect(await state(), 'nothing was written, no number used').toEqual(before);
      if (change.includes('rename')) await make('drop table was');
    }
  });

  it('by changed attributes of a composite type', async () => {
    await make(fresh);
    const table = await get('kept');
    const [one] = compileInsert(table, { p: { x: 1, y: 2 } }, { ...plainInsert, select: readSelect('id') });
    const doing = await prepare(one);
    await make('alter type spot drop attribute y');
    expect(await doing()).toBe('RH001');
    const change = compileUpdate(table, { p: { x: 1, y: 2 } }, readChangeRequest('id=eq.1', []), 'minimal');
    await expect(session.run(change.text, change.params as (string | null)[])).rejects.toMatchObject({
      code: 'RH001',
    });
  });

  it('also by a statement that waited for the change', async () => {
    await make(fresh);
    const doing = await prepare(compileInsert(await get('kept'), { name: 'new' }, plainInsert)[0]);
    const before = await state();
    await make('begin; alter table kept add more int');
    const waiting = doing();
    await new Promise((resolve) => setTimeout(resolve, 200));
    await make('commit');
    expect(await waiting).toBe('RH001');
    expect(await state()).toEqual(before);
  });

  it('at no cost once the statement is planned', async () => {
    await make(fresh);
    const table = await get('kept');
    for (const [label, compile] of kinds) {
      const compiled = compile(table);
      const doing = await prepare(compiled);
      for (let round = 0; round < 5; round++) await doing();
      const [[plans, guards] = []] = await other.run(
        'select generic_plans, custom_plans from pg_prepared_statements where statement = $1',
        [compiled?.text ?? ''],
      );
      expect([label, Number(plans) > 0, Number(guards) <= 5]).toEqual([label, true, true]);
      const name = `e${label.replaceAll(/\W/g, '_')}`;
      await other.client.query(`prepare ${name} as ${compiled?.text}`);
      const values = compiled?.params.map((value) => `'${value}'`).join(', ');
      const plan = await other.client.query(
        `set plan_cache_mode = force_generic_plan; explain verbose execute ${name}${values ? `(${values})` : ''}`,
      );
      expect(JSON.stringify(plan)).not.toContain('is_unchanged');
    }
  });
});
