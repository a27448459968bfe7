// What a caller writes is what PostgreSQL stores: the sign of zero, the decimals of a numeric, the text of a json value.
// By every way in: one row, several, an update, a large array that is copied, JSON lines, and the parameters of a query.
import { beforeAll, describe, expect, it } from 'vitest';
import { useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 1 });
let mine: { slug: string; key: string };

const columns = `id int primary key, f float8, n numeric, p numeric(10,2), fs float8[], ns numeric[], i int, b bigint, iv int[],
  j json, jb jsonb, c pair, s small, t text`;

beforeAll(async () => {
  mine = await rowhouse.project('Written');
  await query('create type pair as (n numeric, i int, f float8)');
  await query('create domain small as int');
});

async function query(text: string, params: string = '[]') {
  const raw = `{"query":${JSON.stringify(text)},"params":${params},"timeout_ms":20000.0}`;
  const headers = { 'content-type': 'application/json' };
  const { status, body } = await rowhouse.call('POST', `/projects/${mine.slug}/query`, {
    key: mine.key,
    raw,
    headers,
  });
  expect(status, JSON.stringify(body)).toBe(200);
  return body.rows;
}

async function send(method: string, path: string, raw: string, type = 'application/json') {
  const headers = { 'content-type': type };
  const { status, body } = await rowhouse.call(method, `/projects/${mine.slug}/tables/${path}`, {
    key: mine.key,
    raw,
    headers,
  });
  expect([200, 201], JSON.stringify(body)).toContain(status);
}

const document = '{"b" : 1.0,  "a":12345678901234567890.50, "b":2e3, "s":"\\u00e9\\/", "z": [-0, 0.30 ]}';
const row = (id: number, json = document) =>
  `{"id":${id}.0,"f":-0,"n":0.30,"p":5.00,"fs":[-0.0,1.0],"ns":[0.30,1.10],"i":1.0,"b":2e3,"iv":[1.0,-0],
    "j":${json},"jb":{"n":0.30},"c":{"n":1.00,"i":2.0,"f":-0},"s":3.0,"t":0.10}`.replaceAll('\n', '');
const stored = (id: number, json = document) => ({
  id: String(id),
  f: '-0',
  n: '0.30',
  p: '5.00',
  fs: '{-0,1}',
  ns: '{0.30,1.10}',
  i: '1',
  b: '2000',
  iv: '{1,0}',
  j: json,
  jb: '{"n": 0.30}',
  c: '(1.00,2,-0)',
  s: '3',
  t: '0.10',
});

/** PostgreSQL's text of every column. */
const read = (table: string) =>
  query(
    `select ${Object.keys(stored(1))
      .map((name) => `${name}::text`)
      .join(', ')} from ${table} t order by t.id`,
  );

describe('values are stored as they are written', () => {
  it.each([
    ['one row', (t: string) => send('POST', t, row(1)), 1],
    ['several rows', (t: string) => send('POST', t, `[${row(1)}, ${row(2)}]`), 2],
    ['an upsert', (t: string) => send('POST', `${t}?on_conflict=id&resolution=merge`, `[${row(1)}]`), 1],
    [
      'an update',
      async (t: string) => {
        await query(`insert into ${t} (id) values (1)`);
        await send('PATCH', `${t}?id=eq.1`, row(1));
      },
      1,
    ],
    [
      'a large array without rows back',
      (t: string) => send('POST', `${t}?returning=minimal`, `[${list(40)}]`),
      40,
    ],
    ['a body of more than one slice', (t: string) => send('POST', t, `[${list(400)}]`), 400],
    ['JSON lines', (t: string) => send('POST', t, list(3, '\n'), 'application/x-ndjson'), 3],
    [
      'JSON lines after a byte order mark',
      (t: string) => send('POST', t, `\uFEFF${list(2, '\r\n')}`, 'application/x-ndjson'),
      2,
    ],
  ])('%s', async (name, write, count) => {
    const table = `t_${name.replaceAll(/\W/g, '_').toLowerCase()}`;
    await query(`create table ${table} (${columns})`);
    await write(table);
    expect(await read(table)).toEqual(Array.from({ length: count }, (_, n) => stored(n + 1)));
  });

  const list = (count: number, between = ',') =>
    Array.from({ length: count }, (_, n) => row(n + 1)).join(between);

  it('large documents, in rows and in lines', async () => {
    await query(`create table large (${columns})`);
    const json = `{"a" : "${'é'.repeat(50_000)}", "a": [${'1.50, '.repeat(20_000)}-0]}`;
    await send('POST', 'large', row(1, json));
    await send('POST', 'large', `[${row(2, json)},${row(3, json)}]`);
    await send('POST', 'large', `${row(4, json)}\n${row(5)}\n`, 'application/x-ndjson');
    await send('PATCH', 'large?id=eq.5', row(5, json));
    expect(await read('large')).toEqual([1, 2, 3, 4, 5].map((id) => stored(id, json)));
  });

  it('one row of simple columns', async () => {
    await query('create table simple (id int, f float8, n numeric, j json)');
    await send('POST', 'simple', `{"id":1.0,"f":-0.0,"n":1.00,"j":${document}}`);
    expect(await query('select id, f::text, n::text, j::text from simple')).toEqual([
      { id: 1, f: '-0', n: '1.00', j: document },
    ]);
  });

  it('a scalar, null and text of json', async () => {
    await query('create table scalars (id int, j json, js json[], nulls json)');
    await send(
      'POST',
      'scalars',
      '[{"id":1,"j":"\\u00e9","js":[{"a":1.0},"x"],"nulls":null},{"id":2,"j":1.50,"js":null,"nulls":null}]',
    );
    await send('POST', 'scalars', '{"id":3,"j":"{\\"a\\":1}","js":"{1.0}","nulls":null}');
    expect(await query('select j::text, js::text, nulls is null as no from scalars order by id')).toEqual([
      { j: '"\\u00e9"', js: '{"{\\"a\\":1.0}","\\"x\\""}', no: true },
      { j: '1.50', js: null, no: true },
      { j: '"{\\"a\\":1}"', js: '{1.0}', no: true },
    ]);
  });

  it('parameters of a query', async () => {
    const text =
      'select $1::float8::text as f, $2::numeric::text as n, $3::numeric[]::text as ns, $4::int as i, $5::bigint[]::text as b, $6::small as s, $7::text as t, $8::jsonb::text as j';
    expect(await query(text, '[-0, 0.30, [1.10, -0.00], 1.0, [2e3], 4.0, "x", {"n": 0.30}]')).toEqual([
      { f: '-0', n: '0.30', ns: '{1.10,0.00}', i: 1, b: '{2000}', s: 4, t: 'x', j: '{"n": 0.30}' },
    ]);
    expect(await query('select $1::text as t', '[5.00]')).toEqual([{ t: '5.00' }]);
    expect(await query('select $1::int as i limit $2', '[1e0, 1.0]')).toEqual([{ i: 1 }]);
  });

  it('a number that is no integer is still refused by an integer column', async () => {
    const { status, body } = await rowhouse.call('POST', `/projects/${mine.slug}/tables/large`, {
      key: mine.key,
      raw: '{"id":9,"i":1.50}',
      headers: { 'content-type': 'application/json' },
    });
    expect([status, body.error.code]).toEqual([422, 'constraint_violation']);
    expect(body.error.message).toContain('"i": 1.50 does not fit integer');
  });
});
