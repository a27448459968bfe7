// The SQL that the review of edits shows, run as it is shown, for values of every kind of type: it must do what the batch does.
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { useTestService } from '../../server/test/support/helpers.ts';

// Sources of the page, which the compiler checks with the settings of a page.
const source = (file: string) => import(path.join(fileURLToPath(new URL('../src', import.meta.url)), file));
type Row = { key: string; values: Record<string, unknown> };
type Edit = { row: Row; column: string; value: unknown };
type Table = { name: string };
type Staged = { kind: 'staged' };
const { emptyHistory, insertRows, setCells, stagedOf, toggleDeleted } = (await source('grid/staged.ts')) as {
  emptyHistory: object;
  insertRows(history: object, rows: object[]): object;
  setCells(history: object, edits: Edit[]): object;
  stagedOf(history: object): Staged;
  toggleDeleted(history: object, rows: Row[]): object;
};
const { editText, parseText } = (await source('grid/value.ts')) as {
  editText(value: unknown, type: string): string;
  parseText(text: string, type: string, example: unknown): { value: unknown } | { problem: string };
};
const { changeStatements, readableStatements } = (await source('tables/change-sql.ts')) as {
  changeStatements(table: Table, staged: Staged): object[];
  readableStatements(table: Table, staged: Staged): string[];
};
const { readChars } = (await source('tables/long-values.ts')) as { readChars: number };

const rowhouse = useTestService();
const long = 'x'.repeat(2_000);

/** By type: two values, as PostgreSQL reads them. */
const samples: Record<string, [string, string]> = {
  smallint: ['-32768', '32767'],
  integer: ['-2147483648', '7'],
  bigint: ['-9223372036854775808', '9007199254740993'],
  'numeric(10,2)': ['-1.50', '12345678.90'],
  numeric: ['NaN', '123456789012345678901234567890.5'],
  real: ['0.1', '-Infinity'],
  'double precision': ['0.30000000000000004', 'NaN'],
  money: ['12.50', '-3'],
  oid: ['4294967295', '1'],
  boolean: ['t', 'f'],
  text: [`O'Neill \\ $1 "quoted"`, ''],
  'character varying(2500)': [long, 'short'],
  'character(5)': ['ab', 'c'],
  '"char"': ['a', 'b'],
  name: ['a', 'B'],
  bytea: ['\\x00ff27', '\\x5c'],
  json: ['{"a":"it\'s","b":[1,null]}', '"text"'],
  jsonb: ['{"a": 1.5}', '[]'],
  date: ['2026-02-28', 'infinity'],
  'time without time zone': ['12:34:56.789', '00:00'],
  'time with time zone': ['12:34:56+02', '00:00-05:30'],
  'timestamp without time zone': ['2026-02-28 12:34:56.123456', '-infinity'],
  'timestamp with time zone': ['2026-02-28 12:34:56.123456+02', '0044-03-15 00:00+00 BC'],
  'timestamp(0) with time zone': ['2026-02-28 12:34:56+02', '2000-01-01 00:00+00'],
  interval: ['1 year 2 mons -3 days 04:05:06.7', '-00:00:01'],
  uuid: ['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '00000000-0000-0000-0000-000000000000'],
  xml: ["<a b='c'>d</a>", '<e/>'],
  inet: ['10.0.0.1/8', '::1'],
  cidr: ['10.0.0.0/8', '2001:db8::/32'],
  macaddr: ['08:00:2b:01:02:03', '00:00:00:00:00:01'],
  'bit(3)': ['101', '010'],
  'bit varying': ['1', ''],
  point: ['(1,2.5)', '(0,0)'],
  box: ['(2,2),(1,1)', '(0,0),(0,0)'],
  path: ['((0,0),(1,1))', '[(0,0),(1,1)]'],
  polygon: ['((0,0),(1,1),(1,0))', '((0,0))'],
  circle: ['<(1,2),3>', '<(0,0),1>'],
  line: ['{1,2,3}', '{0,1,0}'],
  lseg: ['[(0,0),(1,1)]', '[(1,1),(2,2)]'],
  tsvector: ["'a':1 'b'", "'it''s'"],
  tsquery: ["'a' & !'b'", "'c'"],
  jsonpath: ['$."a"', '$[*]'],
  pg_lsn: ['16/B374D848', '0/0'],
  int4range: ['[1,5)', 'empty'],
  numrange: ['(,1.50]', '[2,2]'],
  tstzrange: ['["2026-01-01 00:00+00","2026-02-01 00:00+00")', '(,)'],
  int4multirange: ['{[1,2),[5,7)}', '{}'],
  mood: ["it's ok", 'bad, "very"'],
  spot: ['(9007199254740993,"a ""b"" c",)', '(2,,t)'],
  positive: ['1', '2'],
  words: ['{a,"b c"}', '{}'],
  'integer[]': ['{1,NULL,-3}', '{{1,2},{3,4}}'],
  'bigint[]': ['{9007199254740993}', '{}'],
  'numeric(6,2)[]': ['{1.50,NaN}', '{2}'],
  'text[]': [`{pasted,"a\\"b\\\\c","it's","",NULL,"NULL","{}"}`, '{}'],
  'boolean[]': ['{t,f,NULL}', '{f}'],
  'character varying(5)[]': ['{abc}', '{"d,e"}'],
  'bytea[]': ['{"\\\\x00ff"}', '{NULL}'],
  'json[]': ['{"{\\"a\\":[1,\\"b\\"]}","\\"text\\""}', '{"[1,2]"}'],
  'jsonb[]': ['{"{\\"a\\": 1}","1"}', '{NULL}'],
  'date[]': ['{2026-02-28,NULL}', '{infinity}'],
  'timestamp with time zone[]': ['{"2026-02-28 12:34:56+02"}', '{}'],
  'interval[]': ['{"1 day","-01:00"}', '{}'],
  'uuid[]': ['{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}', '{}'],
  'point[]': ['{"(1,2)","(3,4)"}', '{}'],
  'xml[]': ['{<a/>}', '{}'],
  'inet[]': ['{10.0.0.1,::1}', '{}'],
  'int4range[]': ['{"[1,5)",empty}', '{}'],
  'mood[]': ['{"it\'s ok",NULL}', '{"bad, \\"very\\""}'],
  'spot[]': ['{"(1,\\"a b\\",t)"}', '{NULL}'],
};

let slug: string;
const query = async (text: string) => {
  const answer = await rowhouse.call('POST', `/projects/${slug}/query`, { body: { query: text } });
  expect(answer.status, `${text}: ${JSON.stringify(answer.body)}`).toBe(200);
  return answer.body;
};

beforeAll(async () => {
  ({ slug } = await rowhouse.project());
  await query(`create type mood as enum ('it''s ok', 'bad, "very"')`);
  await query('create type spot as (n bigint, t text, b boolean)');
  await query('create domain positive as int check (value > 0)');
  await query('create domain words as text[]');
});

const quote = (text: string) => `'${text.replaceAll("'", "''")}'`;

describe.each(Object.entries(samples))('%s', (type, [first, second]) => {
  const name = `t${Object.keys(samples).indexOf(type)}`;
  let table: Table;
  /** As the grid reads them. */
  const readRows = async () => {
    const params = `limit=10&numbers=string&order=id&max_value_chars=${readChars}`;
    const { status, body } = await rowhouse.call('GET', `/projects/${slug}/tables/${name}?${params}`);
    expect(status, JSON.stringify(body)).toBe(200);
    return (body.rows as { id: string; v: unknown }[]).map((values) => ({
      key: JSON.stringify([values.id]),
      values,
    }));
  };
  /** The values are as they were at first. */
  const begin = async () => {
    await query(`truncate ${name}`);
    await query(`insert into ${name} values (1, ${quote(first)}), (2, ${quote(second)}), (3, null)`);
    return readRows();
  };
  const stored = async () =>
    (await query(`select t.id::text, v::text from ${name} as t order by t.id`)).rows as {
      id: string;
      v: string;
    }[];
  /** Changes every row to the value of the next, as a person copies it, removes one, and adds a copy of each. */
  const stage = (rows: Awaited<ReturnType<typeof readRows>>) => {
    const copied = rows.map(({ values: { v } }) => (v === null ? null : pasted(v)));
    const edits = rows.map((row, index) => ({ row, column: 'v', value: copied[(index + 1) % 3] }));
    const inserted = copied.map((v, index) => ({ id: String(index + 11), v }));
    return {
      changes: stagedOf(insertRows(setCells(emptyHistory, edits), inserted)),
      deletions: stagedOf(toggleDeleted(emptyHistory, rows)),
    };
  };
  const pasted = (value: unknown) => {
    // The grid reads a long value whole before it is copied.
    const whole = typeof value === 'string' && value.length === readChars ? long : value;
    const parsed = parseText(editText(whole, type), type, whole);
    if ('problem' in parsed) throw new Error(parsed.problem);
    return parsed.value;
  };

  beforeAll(async () => {
    await query(`create table ${name} (id bigint primary key, v ${type})`);
    const { body } = await rowhouse.call('GET', `/projects/${slug}/schema`);
    table = body.tables.find((one: Table) => one.name === name);
  });

  it('what the review shows runs as it is shown, and does what the batch does', async () => {
    const start = await begin();
    const before = await stored();
    const values = before.map(({ v }) => v);
    const wanted = [
      ...before.map(({ id }, index) => ({ id, v: values[(index + 1) % 3] })),
      ...values.map((v, index) => ({ id: String(index + 11), v })),
    ];
    for (const text of readableStatements(table, stage(start).changes))
      expect((await query(text)).affected, text).toBe(1);
    expect(await stored()).toEqual(wanted);
    const again = await begin();
    const statements = changeStatements(table, stage(again).changes);
    const sent = await rowhouse.call('POST', `/projects/${slug}/batch`, {
      body: { statements, numbers: 'string' },
    });
    expect(sent.status, JSON.stringify(sent.body)).toBe(200);
    expect(await stored()).toEqual(wanted);
  });

  it('also the removal of rows, which compares every column', async () => {
    for (const text of readableStatements(table, stage(await begin()).deletions))
      expect((await query(text)).affected, text).toBe(1);
    expect(await stored()).toEqual([]);
    const statements = changeStatements(table, stage(await begin()).deletions);
    const sent = await rowhouse.call('POST', `/projects/${slug}/batch`, {
      body: { statements, numbers: 'string' },
    });
    expect(sent.status, JSON.stringify(sent.body)).toBe(200);
    expect(await stored()).toEqual([]);
  });
});

it('the null of JSON, which the API writes like NULL, is found again', async () => {
  await query('create table nulls (id int primary key, v jsonb)');
  await query(`insert into nulls values (1, 'null'), (2, null)`);
  const { body } = await rowhouse.call('GET', `/projects/${slug}/schema`);
  const nulls = body.tables.find((one: Table) => one.name === 'nulls');
  const rows = [1, 2].map((id) => ({ key: `[${id}]`, values: { id, v: null } }));
  const edits = rows.map((row) => ({ row, column: 'v', value: { a: row.key } }));
  for (const text of readableStatements(nulls, stagedOf(setCells(emptyHistory, edits))))
    expect((await query(text)).affected, text).toBe(1);
});
