import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { builtInType } from '../../src/query/json/value-kinds.ts';
import { asAdmin, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 1 });
let mine: { slug: string; key: string };
beforeAll(async () => {
  mine = await rowhouse.project('Values');
  await run("create type mood as enum ('sad', 'so so', 'NULL', '\"quoted\"')");
  await run('create domain small as int check (value < 1000)');
  await run('create type pair as (a int, "b c" text)');
  await run('create type nest as (p pair, ps pair[], at timestamptz, m mood[], d small, j jsonb)');
  await run('create domain pairs as pair[]');
  await run('create type span as range (subtype = float8)');
  await run('create extension hstore');
});

const run = (query: string, more: object = {}) =>
  rowhouse.call('POST', `/projects/${mine.slug}/query`, { key: mine.key, body: { query, ...more } });

/** The same seed gives the same values: a failure can be run again. */
let state = 42;
function random(below: number): number {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
}
const pick = <T>(list: readonly T[]): T => list[random(list.length)] as T;
const digits = (count: number) => Array.from({ length: count }, () => random(10)).join('');
const nasty = [
  '"',
  '\\',
  '\n',
  '\t',
  '\r',
  '\b',
  '\f',
  '\u0001',
  '\u001f',
  "'",
  ',',
  '{',
  '}',
  '(',
  ')',
  ' ',
  'é',
  '日',
  '😀',
  'null',
  'NULL',
  '\u2028',
  '\u007f',
  'a',
  '0',
];
const text = () => Array.from({ length: random(12) }, () => pick(nasty)).join('');
const stamp = () =>
  pick([
    `${1 + random(9998)}-0${1 + random(9)}-1${random(10)} ${random(24)}:${random(60)}:${random(60)}.${digits(6)}`.padStart(
      26,
      '0',
    ),
    '2026-11-14 09:30:00',
    '2026-11-14 09:30:00.100000',
    'infinity',
    '-infinity',
    '0044-03-15 12:00:00 BC',
    '294276-12-31 23:59:59.999999',
  ]);

const generators: Record<string, () => string> = {
  int2: () => String(random(65_536) - 32_768),
  int4: () => String(random(2 ** 32) - 2 ** 31),
  int8: () => `${pick(['', '-'])}${1 + random(8)}${digits(18)}`,
  numeric: () =>
    pick([`${digits(20)}.${digits(15)}`, 'NaN', 'Infinity', '-Infinity', '-0.00', '1e50', '1.50']),
  float4: () => pick([`${random(1e6)}.${digits(3)}`, 'NaN', 'Infinity', '-Infinity', '1e-30', '3.4e38']),
  float8: () =>
    pick([`-${digits(5)}.${digits(12)}`, 'NaN', 'Infinity', '-Infinity', '1e300', '5e-324', '0.1']),
  bool: () => pick(['t', 'f']),
  text,
  varchar: text,
  'char(7)': () => text().slice(0, 3),
  name: () => text().slice(0, 10),
  json: () =>
    pick(['{"a" : [1, 2.50, {"b": null}]}', ' [ ] ', '"x\\u00e9"', '1.10', 'null', '{"a":1,"a":2}']),
  jsonb: () => pick(['{"a": [1, 2.50, {"b": null}]}', '[]', '"x\\n"', '12345678901234567890.10', 'null']),
  bytea: () => `\\x${digits(2 * random(8))}`,
  uuid: () => '3f333df6-90a4-4fda-8dd3-9485d27cee36',
  date: () => pick(['2026-11-14', 'infinity', '0044-03-15 BC', '12026-01-01']),
  time: () => `0${random(10)}:00:00.${digits(3)}`,
  timetz: () => '10:20:30.5+02',
  interval: () => pick(['1 year 2 mons -3 days 04:05:06.789', '0', '-1 day', '100000 hours']),
  timestamp: stamp,
  timestamptz: stamp,
  inet: () => pick(['10.0.0.1/24', '::1']),
  macaddr: () => '08:00:2b:01:02:03',
  money: () => '12.34',
  bit: () => pick(['0', '1']),
  'bit varying': () => '10110',
  point: () => '(1.5,-2)',
  box: () => '(1,2),(3,4)',
  polygon: () => '((0,0),(1,1),(2,0))',
  int4range: () => pick(['[1,5)', 'empty', '(,3]']),
  tstzrange: () => '["2026-01-01 00:00+00","2026-02-01 00:00+00")',
  int4multirange: () => '{[1,3),[5,9)}',
  tsvector: () => "'fat':2 'rat''s':3",
  tsquery: () => "'fat' & 'rat'",
  xml: () => '<a b="c">d</a>',
  jsonpath: () => '$."a"[*]',
  oid: () => String(random(100_000)),
  regclass: () => 'pg_class',
  int2vector: () => '1 2 3',
  oidvector: () => '10 20',
  pg_lsn: () => '16/B374D848',
  '"char"': () => pick(['a', '"', '\\']),
  mood: () => pick(['sad', 'so so', 'NULL', '"quoted"']),
  small: () => String(random(1000)),
  span: () => '[1.5,2.5)',
};

/** PostgreSQL's own JSON of a timestamp, with the agreed difference. */
const agreed = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value)
      .replace(/"(\d{4,6}-\d\d-\d\dT[\d:.]+)\+00:00( BC)?"/g, '"$1Z$2"')
      .replace(/"(\d{4,6}-\d\d-\d\dT[\d:.]+)( BC)?"/g, '"$1Z$2"'),
  );

async function compare(expressions: string[], params: string[] = []): Promise<void> {
  const list = expressions.map((expression, n) => `${expression} as v${n}, to_json(${expression}) as j${n}`);
  const { status, body } = await run(`select ${list.join(', ')}`, { params });
  expect(status, JSON.stringify(body)).toBe(200);
  const [row] = body.rows;
  expressions.forEach((expression, n) => {
    expect(row[`v${n}`], `${expression} of ${params}`).toEqual(agreed(row[`j${n}`]));
  });
}

describe('every type as PostgreSQL’s own to_json writes it', () => {
  it.each(Object.keys(generators))('%s, and arrays of it', async (type) => {
    const make = generators[type] as () => string;
    for (let round = 0; round < 12; round++) {
      const params = [make(), make()];
      // There is no array of these two.
      const arrays = ['int2vector', 'oidvector'].includes(type)
        ? []
        : [
            `array[$1::${type}, null, $2::${type}]`,
            `array[[$1::${type}, $2::${type}], [null, $1::${type}]]`,
            `(array[$1::${type}])[2:1]`,
            `null::${type === 'char(7)' ? 'bpchar' : type}[]`,
          ];
      await compare([`$1::${type}`, `$2::${type}`, ...arrays], params);
    }
  });

  it('composites, nested in each other and in arrays', async () => {
    for (let round = 0; round < 20; round++) {
      const pair = 'row($1::int, $2)::pair';
      const nest = `row(${pair}, array[${pair}, null], $3::timestamptz, array[$4::mood, null], $5::small, $6::jsonb)::nest`;
      const make = ['int4', 'text', 'timestamptz', 'mood', 'small', 'jsonb'].map((type) =>
        (generators[type] as () => string)(),
      );
      await compare(
        [
          pair,
          nest,
          `array[${nest}, null]`,
          `array[${pair}, row(null, null)::pair]::pairs`,
          `row(null, '')::pair`,
        ],
        make,
      );
    }
  });

  it('arrays with bounds of their own, and rows of a table', async () => {
    await compare([
      "'[0:1]={1,2}'::int[]",
      "'[2:3][-1:0]={{a,b},{c,NULL}}'::text[]",
      "'{}'::int[]",
      "'{{}}'::int[]".replace('{{}}', '{}'),
    ]);
    const { body } = await run('select n from pg_namespace n where nspname = $1', { params: ['pg_catalog'] });
    expect(body.rows[0].n).toMatchObject({ nspname: 'pg_catalog' });
    expect(body.types).toEqual(['pg_namespace']);
  });

  it('hstore, an anonymous record and void', async () => {
    await compare([`'a=>1, "b c"=>NULL, "q\\"x"=>"y\\\\z"'::hstore`]);
    const { body } = await run("select row(1, 'a', null) as r, pg_notify('x', 'y') as v");
    expect(body.rows).toEqual([{ r: { f1: '1', f2: 'a', f3: null }, v: '' }]);
  });

  it('a composite that has changed since the last query', async () => {
    await run('create type shifty as (a int)');
    await run('create table shifts (s shifty)');
    await run('insert into shifts values (row(1)::shifty)');
    expect((await run('select s from shifts')).body.rows).toEqual([{ s: { a: 1 } }]);
    await run('alter type shifty add attribute b text cascade');
    expect((await run('select s from shifts')).body.rows).toEqual([{ s: { a: 1, b: null } }]);
  });
});

describe('nothing is lost in an answer', () => {
  const raw = async (query: string, more: object = {}) => {
    const response = await rowhouse.app.inject({
      method: 'POST',
      url: `/api/dbaas/v2/projects/${mine.slug}/query`,
      headers: { 'x-api-key': mine.key, 'content-type': 'application/json' },
      payload: JSON.stringify({ query, ...more }),
    });
    return response.body;
  };

  it('every digit of a number is there', async () => {
    const query =
      'select 9007199254740993 as a, 1.10::numeric as b, 12345678901234567890.123456789 as c, array[1.50] as d, \'{"x":1.00}\'::json as e';
    expect(await raw(query)).toContain(
      '{"a":9007199254740993,"b":1.10,"c":12345678901234567890.123456789,"d":[1.50],"e":{"x":1.00}}',
    );
    expect(await raw(query, { numbers: 'string' })).toContain(
      '{"a":"9007199254740993","b":"1.10","c":"12345678901234567890.123456789","d":["1.50"],"e":{"x":1.00}}',
    );
  });

  it('types come before the rows, so that a streaming reader knows them', async () => {
    expect(await raw('select 1::bigint as a, now() as b')).toMatch(
      /^\{"ok":true,"columns":\["a","b"\],"types":\["int8","timestamptz"\],"rows":\[/,
    );
  });

  it('microseconds are there', async () => {
    expect(await raw("select '2026-11-14 09:30:00.123456+02'::timestamptz as t")).toContain(
      '"2026-11-14T07:30:00.123456Z"',
    );
  });

  it('a value of 50 MB is there, and 1 GB is refused without affecting others', {
    tags: 'long',
  }, async () => {
    const { body } = await run("select repeat('x\"', 25000000) as v, length(repeat('y', 10)) as n");
    expect(body.rows[0].v.length).toBe(50_000_000);
    expect(body.rows[0].n).toBe(10);
    for (const query of [
      "select repeat('x', 1000000000)",
      "select repeat('x', 600000000), repeat('y', 600000000)",
      "select array_fill(repeat('x', 1000), array[1000000])",
    ]) {
      const refused = await run(query, { timeout_ms: 120_000 });
      expect(refused.status, `${query}: ${JSON.stringify(refused.body)}`).toBe(400);
    }
    expect((await run('select 1 as fine')).body.rows).toEqual([{ fine: 1 }]);
  });
});

it('the table of built-in types agrees with the server', async () => {
  const rows = await asAdmin((admin) =>
    admin.query<{ oid: number; name: string; element: number; kind: string }>(sql`
      select oid::int as oid, typname as name, typtype as kind,
             case when typsubscript = 'array_subscript_handler'::regproc then typelem::int else 0 end as element
      from pg_type where oid < 16384`),
  );
  for (const { oid, name, element, kind } of rows) {
    const known = builtInType(oid);
    if (!known) continue;
    expect(['b', 'r', 'm', 'p'], name).toContain(kind);
    if (known.kind.is === 'array') expect(element, name).not.toBe(0);
    else if (known.kind.is !== 'vector') expect([known.name, element]).toEqual([name, 0]);
  }
  for (const oid of [16, 17, 20, 23, 25, 114, 701, 1007, 1009, 1114, 1184, 1700, 2950, 3802, 3807])
    expect(builtInType(oid)).toBeDefined();
});
