// JSON objects with thousands of names, which are not handled as objects of JavaScript: they are stored whole by every way in.
import { beforeAll, expect, it } from 'vitest';
import type { TestProject } from '../support/end-users.ts';
import { useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();
let project: TestProject;
let connection: string;

const names = ['__proto__', 'constructor', '7', '4294967296', 'ü"\\'].concat(
  Array.from({ length: 6_000 }, (_, n) => (n % 2 === 0 ? String(n * 40_007) : `name ${n}`)),
);
/** As it is sent: with a repeated name, of which the last value counts. */
const wide = `{"7":"first",${names.map((name, n) => `${JSON.stringify(name)}:${n % 3 === 0 ? '0.30' : `[${n}]`}`)}}`;
const isWide = 'select $1::text::jsonb = j as same from t order by id desc limit 1';

const send = async (method: string, path: string, raw: string, more: Record<string, string> = {}) => {
  const { status, body } = await rowhouse.call(method, path, {
    key: more['neon-connection-string'] ? '' : project.key,
    raw,
    headers: { 'content-type': 'application/json', ...more },
  });
  return { status, body };
};
const post = (rest: string, raw: string, more?: Record<string, string>) =>
  send('POST', `/projects/${project.slug}${rest}`, raw, more);

beforeAll(async () => {
  project = await rowhouse.project('Wide');
  const made = await post(
    '/query',
    '{"query":"create table t (id serial primary key, v text, j jsonb, raw json, list jsonb[])"}',
  );
  expect(made.status).toBe(200);
  const { body } = await rowhouse.call('GET', `/projects/${project.slug}/connection`, { key: project.key });
  connection = body.connection.url;
});

const insert = 'insert into t (j) values ($1::jsonb)';
const ways: [name: string, write: () => ReturnType<typeof send>][] = [
  ['/query', () => post('/query', `{"query":"${insert}","params":[${wide}]}`)],
  [
    '/query, in an array of jsonb',
    () => post('/query', `{"query":"insert into t (j) select ($1::jsonb[])[2]","params":[[1,${wide}]]}`),
  ],
  [
    '/query, within another value',
    () =>
      post('/query', `{"query":"insert into t (j) select $1::jsonb -> 'a' -> 0","params":[{"a":[${wide}]}]}`),
  ],
  ['/batch', () => post('/batch', `{"statements":[{"query":"${insert}","params":[${wide}]}]}`)],
  [
    '/sql',
    () =>
      send('POST', '/sql', `{"query":"${insert}","params":[${wide}]}`, {
        'neon-connection-string': connection,
      }),
  ],
  ['a row', () => post('/tables/t', `{"j":${wide}}`)],
  ['rows', () => post('/tables/t', `[{"v":"a","j":null},{"v":"b","j":${wide}}]`)],
  [
    'rows that are copied',
    () => post('/tables/t?returning=minimal', `[{"v":"a","j":1},{"v":"b","j":${wide}}]`),
  ],
  ['lines', () => post('/tables/t', `{"j":${wide}}\n`, { 'content-type': 'application/x-ndjson' })],
  [
    'a change',
    async () => {
      await post('/tables/t', '{"v":"new"}');
      return send('PATCH', `/projects/${project.slug}/tables/t?v=eq.new`, `{"j":${wide},"v":"changed"}`);
    },
  ],
];

it.each(ways)('is stored by %s', async (_name, write) => {
  const { status, body } = await write();
  expect([200, 201], JSON.stringify(body).slice(0, 300)).toContain(status);
  const read = await post('/query', JSON.stringify({ query: isWide, params: [wide] }));
  expect(read.body.rows).toEqual([{ same: true }]);
});

it('keeps its text in a json column', async () => {
  for (const write of [
    () => post('/tables/t', `{"raw":${wide}}`),
    () => post('/tables/t', `[{"raw":${wide}},{"raw":1}]`),
  ]) {
    expect((await write()).status).toBe(201);
    const query = 'select count(*) from t where raw::text = $1';
    const { body } = await post('/query', JSON.stringify({ query, params: [wide] }));
    expect(body.rows[0].count).toBeGreaterThan(0);
    expect((await post('/query', '{"query":"truncate t"}')).status).toBe(200);
  }
});

it('is text where PostgreSQL expects one, and an element of arrays', async () => {
  const query = 'select $1::text::jsonb = $3::text::jsonb and $2::jsonb[] = array[$3::text::jsonb] as same';
  const { body } = await post(
    '/query',
    `{"query":"${query}","params":[${wide},[${wide}],${JSON.stringify(wide)}]}`,
  );
  expect(body.rows, JSON.stringify(body).slice(0, 300)).toEqual([{ same: true }]);
});

it('is handed on by tools of agents', async () => {
  const query = "select case when $1::jsonb = $2::text::jsonb then 'the same' end as compared";
  const call = { name: 'query', arguments: { project: project.slug, query, params: ['WIDE', wide] } };
  const { status, body } = await send(
    'POST',
    '/mcp',
    JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: call }).replace(
      '"WIDE"',
      () => wide,
    ),
    { accept: 'application/json, text/event-stream' },
  );
  expect([status, JSON.stringify(body).slice(0, 800)]).toEqual([200, expect.stringContaining('the same')]);
});

it('is refused where the names are known', async () => {
  for (const [rest, body] of [
    ['/query', wide],
    ['/batch', `{"statements":[${wide}]}`],
    ['/query', `{"query":"select 1",${wide.slice(1)}`],
    ['/tables/t', wide],
    ['/tables/t', `[{"v":"a"},${wide}]`],
    ['/auth/signup', wide],
  ] as const) {
    const { status, body: answer } = await post(rest, body);
    expect([status, answer.error.code], rest).toEqual([400, 'invalid_request']);
    expect(JSON.stringify(answer).length).toBeLessThan(3_000);
  }
  const user = `{"email":"wide@example.com","password":"correct horse","data":{"a":[${wide}]}}`;
  const { status, body } = await post('/auth/signup', user);
  expect([status, body.error.message]).toEqual([400, expect.stringContaining('65536 bytes')]);
});
