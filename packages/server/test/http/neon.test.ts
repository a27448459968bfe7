// POST /sql as Neon's driver speaks it, and what strangers may try with it. The driver itself is tested in compatibility/.
import { once } from 'node:events';
import { connect } from 'node:net';
import { beforeAll, describe, expect, it } from 'vitest';
import { toPostgresInterval, toPostgresIntervals } from '../../src/query/json/intervals.ts';
import { type Answer, soon, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 2 });
type Place = { slug: string; id: string; key: string; url: string; user: string; password: string };
let project: Place;
let neighbour: Place;

async function newPlace(name: string): Promise<Place> {
  const made = await rowhouse.project(name);
  const { body } = await rowhouse.call('GET', `/projects/${made.slug}/connection`);
  return { ...made, ...body.connection };
}

beforeAll(async () => {
  project = await newPlace('Neon');
  neighbour = await newPlace('Neighbour');
  await sql('create table notes (id int primary key, text text not null, at timestamptz default now())');
});

type Asked = { url?: string; headers?: Record<string, string>; raw?: string | Buffer };
const driver = { 'neon-raw-text-output': 'true', 'neon-array-mode': 'true' };

function post(body: unknown, { url = project.url, headers = {}, raw }: Asked = {}): Promise<Answer> {
  return rowhouse.call('POST', '/sql', {
    key: '',
    raw: raw ?? JSON.stringify(body),
    headers: {
      'content-type': 'text/plain;charset=UTF-8',
      'neon-connection-string': url,
      ...driver,
      ...headers,
    },
  });
}

const sql = (query: string, params: unknown[] = [], asked: Asked = {}) => post({ query, params }, asked);
const batch = (queries: string[], asked: Asked = {}) =>
  post({ queries: queries.map((query) => ({ query, params: [] })) }, asked);
const as = (user: string, password: string, database: string) =>
  `postgresql://${encodeURIComponent(user)}:${encodeURIComponent(password)}@any.host/${encodeURIComponent(database)}`;

describe("answers to Neon's driver", () => {
  it('give fields as PostgreSQL describes them, and rows of text', async () => {
    const { status, body } = await sql('select id, text, $1::int8 + 1 as big from notes', ['41']);
    expect(status).toBe(200);
    expect(body.fields[0]).toEqual({
      name: 'id',
      tableID: expect.any(Number),
      columnID: 1,
      dataTypeID: 23,
      dataTypeSize: 4,
      dataTypeModifier: -1,
      format: 'text',
    });
    expect(body.fields[0].tableID).toBeGreaterThan(16_384);
    expect(body.fields[2]).toMatchObject({ name: 'big', tableID: 0, columnID: 0, dataTypeID: 20 });
    expect(body).toMatchObject({ command: 'SELECT', rowCount: 0, rows: [], rowAsArray: true });
  });

  it.each([
    ["insert into notes (id, text) values (1, 'a'), (2, 'b')", 'INSERT', 2],
    ["update notes set text = 'c' where id = 1", 'UPDATE', 1],
    ['delete from notes', 'DELETE', 2],
    ['create table made (id int)', 'CREATE', null],
    ['do $$ begin end $$', 'DO', null],
    ['explain select 1', 'EXPLAIN', null],
  ])('give command and row count of %s', async (query, command, rowCount) => {
    expect((await sql(query)).body).toMatchObject({ command, rowCount });
  });

  it('keep repeated column names and all their values', async () => {
    expect((await sql('select 1 as a, 2 as a')).body).toMatchObject({
      fields: [{ name: 'a' }, { name: 'a' }],
      rows: [['1', '2']],
    });
    const objects = await sql('select 1 as a, 2 as a', [], { headers: { 'neon-array-mode': 'false' } });
    expect(objects.body).toMatchObject({ rows: [{ a: '1', a_2: '2' }], rowAsArray: false });
  });

  it('give JSON values unless raw text is asked for, and only what every JSON reader can hold', async () => {
    const query = `select 1::int4 as i, 9007199254740993 as big, 1.10 as n, true as yes, '{"a": [1]}'::jsonb as j,
      '{1,NULL}'::int4[] as list, '{1,2}'::int8[] as bigs, '2026-01-02 03:04:05+00'::timestamptz as at,
      'NaN'::float8 as nan, '1 day'::interval as day, '{1 day,02:00:00}'::interval[] as days, null as nothing,
      row(1, 'a') as pair`;
    const { body } = await sql(query, [], {
      headers: { 'neon-raw-text-output': 'false', 'neon-array-mode': 'false' },
    });
    expect(body.rows).toEqual([
      {
        i: 1,
        big: '9007199254740993',
        n: '1.10',
        yes: true,
        j: { a: [1] },
        list: [1, null],
        bigs: ['1', '2'],
        at: '2026-01-02 03:04:05+00',
        nan: 'NaN',
        day: '1 day',
        days: ['1 day', '02:00:00'],
        nothing: null,
        pair: '(1,a)',
      },
    ]);
  });

  it('are not confused with those of /query for the same text in the same session', async () => {
    const query = 'select id, text from notes order by id';
    for (let round = 0; round < 4; round++) {
      const [own, texts, objects] = await Promise.all([
        rowhouse.call('POST', `/projects/${project.slug}/query`, { key: project.key, body: { query } }),
        sql(query),
        sql(query, [], { headers: { 'neon-array-mode': 'false' } }),
      ]);
      expect(own.body).toMatchObject({
        ok: true,
        columns: ['id', 'text'],
        rows: [],
        types: ['int4', 'text'],
      });
      expect(texts.body).toMatchObject({ fields: [{ name: 'id' }, { name: 'text' }], rowAsArray: true });
      expect(objects.body).toMatchObject({ rowAsArray: false });
    }
  });

  it('are streamed when large', async () => {
    const { body } = await sql("select n, repeat('x', 100) as pad from generate_series(1, 20000) as n");
    expect(body.rows.length).toBe(20_000);
    expect(body.rows[19_999][0]).toBe('20000');
    expect(body.rowCount).toBe(20_000);
  });

  it('follow parameters of every JSON type', async () => {
    const { body } = await sql('select $1::jsonb, $2::int[], $3::numeric, $4::bool, $5::text, $6::bytea', [
      { a: 1 },
      [1, 2],
      1.5,
      true,
      null,
      '\\x00ff',
    ]);
    expect(body.rows).toEqual([['{"a": 1}', '{1,2}', '1.5', 't', null, '\\x00ff']]);
  });
});

describe("batches of Neon's driver", () => {
  it('are one transaction', async () => {
    const good = await batch(["insert into notes (id, text) values (10, 'x')", 'select count(*) from notes']);
    expect(good.body.results).toMatchObject([{ command: 'INSERT' }, { rows: [['1']] }]);
    const bad = await batch(["insert into notes (id, text) values (11, 'x')", 'select 1/0']);
    expect(bad.status).toBe(400);
    expect(bad.body).toMatchObject({ code: '22012', error: { details: { statement: 1 } } });
    expect((await sql('select id from notes')).body.rows).toEqual([['10']]);
    await sql('delete from notes');
  });

  it.each([
    ['ReadUncommitted', 'read uncommitted'],
    ['ReadCommitted', 'read committed'],
    ['RepeatableRead', 'repeatable read'],
    ['Serializable', 'serializable'],
  ])('run at isolation level %s', async (level, name) => {
    const headers = { 'neon-batch-isolation-level': level };
    const { body } = await batch(["select current_setting('transaction_isolation')"], { headers });
    expect(body.results[0].rows).toEqual([[name]]);
  });

  it('are read-only and deferrable on request', async () => {
    const headers = {
      'neon-batch-read-only': 'true',
      'neon-batch-deferrable': 'true',
      'neon-batch-isolation-level': 'Serializable',
    };
    const { body } = await batch(["select current_setting('transaction_deferrable')"], { headers });
    expect(body.results[0].rows).toEqual([['on']]);
    expect((await batch(['delete from notes'], { headers })).body.code).toBe('25006');
  });

  it('may be empty', async () => {
    expect((await batch([])).body).toEqual({ results: [] });
  });

  it.each([
    [{ 'neon-batch-isolation-level': 'serializable; drop table notes' }, 'isolation-level'],
    [{ 'neon-batch-isolation-level': '__proto__' }, 'isolation-level'],
    [{ 'neon-batch-read-only': 'yes' }, 'read-only'],
    [{ 'neon-array-mode': 'TRUE, false' }, 'array-mode'],
  ])('refuse the header %j', async (headers, name) => {
    const { status, body } = await batch(['select 1'], { headers: headers as Record<string, string> });
    expect(status).toBe(400);
    expect(body.message).toContain(name);
  });

  it('have headers that are refused for a single query', async () => {
    const { status, body } = await sql('select 1', [], { headers: { 'neon-batch-read-only': 'true' } });
    expect([status, body.code]).toEqual([400, '08P01']);
  });
});

describe('errors', () => {
  it("have PostgreSQL's fields at the top level, with status 400, beside the API's envelope", async () => {
    await sql("insert into notes (id, text) values (1, 'a')");
    const { status, body } = await sql("insert into notes (id, text) values (1, 'b')");
    expect(status).toBe(400);
    expect(body).toMatchObject({
      message: expect.stringContaining('duplicate key'),
      code: '23505',
      severity: 'ERROR',
      detail: 'Key (id)=(1) already exists.',
      schema: 'public',
      table: 'notes',
      constraint: 'notes_pkey',
      ok: false,
      error: { code: 'conflict' },
      request_id: expect.any(String),
    });
    expect((await sql('select nope')).body).toMatchObject({ code: '42703', position: '8' });
    await sql('delete from notes');
  });

  it.each([
    ['select 1; select 2', '42601'],
    ['begin', '0A000'],
    ['commit', '0A000'],
    ['rollback', '0A000'],
    ['copy notes from stdin', '0A000'],
    ['copy notes to stdout', '0A000'],
    ["copy notes to program 'id'", '42501'],
    ["select pg_read_file('/etc/passwd')", '42501'],
    ['listen x', '0A000'],
    ['set role postgres', '0A000'],
    ['do $$ begin commit; end $$; select 1', '42601'],
    ['select $1', '08P01'],
    ['   ', '08P01'],
    ['select \0', '08P01'],
  ])('%s → %s', async (query, code) => {
    const { status, body } = await sql(query);
    expect([status, body.code], JSON.stringify(body)).toEqual([400, code]);
    expect(body.message).toBeTruthy();
  });

  it('neither end a batch from inside nor leave a transaction open', async () => {
    for (const query of ['commit', 'rollback', 'begin', 'do $$ begin commit; end $$', 'select 1; commit'])
      expect((await batch(["insert into notes (id, text) values (9, 'x')", query, 'select 1'])).status).toBe(
        400,
      );
    expect((await sql('select count(*) from notes')).body.rows).toEqual([['0']]);
    expect((await sql('create temp table mine (id int)')).status).toBe(200);
    expect((await sql('select * from mine')).body.code).toBe('42P01');
  });

  it.each([
    [{ query: 'select 1', queries: [] }],
    [{ params: [1] }],
    [{}],
    [[]],
    ['select 1'],
    [null],
    [{ query: 1 }],
    [{ query: '' }],
    [{ query: 'select 1', params: {} }],
    [{ query: 'select 1', more: 1 }],
    [{ queries: [{ query: 'select 1', params: 'x' }] }],
    [{ queries: { length: 1 } }],
    [{ queries: ['select 1'] }],
  ])('are clear for the body %j', async (body) => {
    const answer = await post(body);
    expect([answer.status, answer.body.code], JSON.stringify(answer.body)).toEqual([400, '08P01']);
  });

  it('are returned for oversized requests, and the service goes on', async () => {
    const many = await batch(Array.from({ length: 10_000 }, () => 'select 1'));
    expect([many.status, many.body.code]).toEqual([400, '08P01']);
    const huge = await post(null, { raw: Buffer.alloc(33 * 1024 * 1024, 32) });
    expect(huge.status).toBe(413);
    expect(huge.body.message).toContain('32 MB');
    const deep = await post(null, {
      raw: `{"query": "select $1::jsonb", "params": [${'['.repeat(50_000)}${']'.repeat(50_000)}]}`,
    });
    expect(deep.status).toBe(400);
    const broken = await post(null, { raw: '{"query": "select 1"' });
    expect([broken.status, broken.body.code]).toEqual([400, '08P01']);
    const proto = await post(null, { raw: '{"query": "select 1", "__proto__": {"params": [1]}}' });
    expect(proto.status).toBe(400);
    const packed = await sql('select 1', [], { headers: { 'content-encoding': 'gzip' } });
    expect(packed.status).toBe(415);
    const form = await sql('select 1', [], {
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    });
    expect(form.status).toBe(415);
    expect((await sql('select 1')).status).toBe(200);
    expect((await sql('select 1', [], { url: neighbour.url })).status).toBe(200);
  });

  it('are returned for other content types, methods and parameters', async () => {
    const json = await sql('select 1', [], { headers: { 'content-type': 'application/json' } });
    expect(json.status).toBe(200);
    expect((await rowhouse.call('GET', '/sql')).status).toBe(405);
    const headers = { 'neon-connection-string': project.url, 'content-type': 'text/plain' };
    const raw = '{"query": "select 1"}';
    expect((await rowhouse.call('POST', '/sql?x=1', { key: '', raw, headers })).status).toBe(400);
    expect((await rowhouse.call('POST', '/SQL', { key: '', raw, headers })).status).toBe(404);
  });
});

describe("callers with Neon's driver", () => {
  it('are accepted with the connection string, and with any key and the slug as the database', async () => {
    const who = 'select current_user';
    for (const url of [
      project.url,
      as(project.user, project.password, `p_${project.id}`),
      as('anybody', project.key, project.slug),
      as('anybody', project.key, `p_${project.id}`),
      as(project.slug, project.key, 'postgres'),
      as('anybody', rowhouse.accountKey, project.slug),
    ])
      expect((await sql(who, [], { url })).body.rows, url).toEqual([[`p_${project.id}`]]);
    const url = `postgres://anybody@host/${project.slug}`;
    const headers = { authorization: `Bearer ${project.key}` };
    expect((await sql(who, [], { url, headers })).body.rows).toEqual([[`p_${project.id}`]]);
  });

  it('are refused otherwise before the body is read', async () => {
    const refused: [url: string, code: string][] = [
      [as(project.user, `${project.password}x`, project.user), '28P01'],
      [as(project.user, neighbour.password, project.user), '28P01'],
      [as(neighbour.user, project.password, neighbour.user), '28P01'],
      [as(project.user, project.password, neighbour.user), '3D000'],
      [as(project.user, project.password, project.slug), '3D000'],
      [as(project.user, project.password, 'postgres'), '3D000'],
      [as('postgres', 'postgres', 'postgres'), '28P01'],
      [as(`${project.user}_auth`, project.password, project.user), '28P01'],
      [as(`${project.user}'; drop role x; --`, project.password, project.user), '28P01'],
      [as(`p_${'a'.repeat(4000)}`, 'x', 'x'), '28P01'],
      [as(`${project.user}\0`, project.password, project.user), '28P01'],
      [as('__proto__', 'constructor', '__proto__'), '28P01'],
      [as('x', neighbour.key, project.slug), '3D000'],
      [as(project.slug, neighbour.key, 'postgres'), '3D000'],
      [as(project.slug, project.key, neighbour.slug), '3D000'],
      [as('x', `${project.key}x`, project.slug), '28P01'],
      [as('x', rowhouse.accountKey, 'nobody'), '3D000'],
      [as('x', rowhouse.accountKey, `p_${project.id}`), '3D000'],
      [as('x', '', project.slug), '28000'],
      ['', '28000'],
      ['http://x:y@host/db', '08P01'],
      ['postgres://%zz:y@host/db', '08P01'],
      ['not an address', '08P01'],
      [`${project.url}?options=-c%20role%3Dpostgres`, '08P01'],
      [`${project.url}, ${neighbour.url}`, '3D000'],
    ];
    for (const [url, code] of refused) {
      const { status, body } = await sql('select 1', [], { url });
      expect([status, body.code], `${url} ${JSON.stringify(body)}`).toEqual([400, code]);
      for (const secret of [project.password, neighbour.password, project.key, neighbour.key])
        expect(JSON.stringify(body)).not.toContain(secret);
    }
    const raw = Buffer.alloc(64 * 1024 * 1024, 32);
    const stranger = await post(null, { url: as(project.user, 'x', project.user), raw });
    expect(stranger.body.code).toBe('28P01');
    const missing = await rowhouse.call('POST', '/sql', { key: project.key, raw: '{"query": "select 1"}' });
    expect([missing.status, missing.body.code]).toEqual([400, '28000']);
    const both = await sql('select 1', [], { headers: { authorization: `Bearer ${project.key}` } });
    expect(both.body.code).toBe('08P01');
    expect(rowhouse.log.join('')).not.toContain(project.password);
  });

  it('are held to the scopes of their keys', async () => {
    const issue = async (scopes: string[]) => {
      const { body } = await rowhouse.call('POST', `/projects/${project.slug}/keys`, {
        body: { name: 'scoped', scopes },
      });
      return as('x', body.api_key, project.slug);
    };
    const read = await issue(['query:read']);
    expect((await sql('select 1', [], { url: read })).status).toBe(200);
    expect((await sql('delete from notes', [], { url: read })).body.code).toBe('25006');
    const writable = { url: read, headers: { 'neon-batch-read-only': 'false' } };
    expect((await batch(['delete from notes'], writable)).body.code).toBe('25006');
    for (const attempt of [
      "select set_config('transaction_read_only', 'off', true)",
      'set transaction read write',
      "do $$ begin execute 'set transaction read write'; end $$",
    ]) {
      expect((await batch([attempt, 'delete from notes'], writable)).status, attempt).toBe(400);
      expect((await batch(['select 1', attempt, 'delete from notes'], writable)).status, attempt).toBe(400);
    }
    const tables = await issue(['tables:read', 'tables:write']);
    expect((await sql('select 1', [], { url: tables })).body).toMatchObject({
      code: '42501',
      error: { code: 'forbidden' },
    });
  });

  it('are refused within one second after a password change or a deletion', async () => {
    const place = await newPlace('Rotated');
    expect((await sql('select 1', [], { url: place.url })).status).toBe(200);
    await rowhouse.call('POST', `/projects/${place.slug}/keys/rotate`, { body: { grace_seconds: 0 } });
    await until(
      'refused',
      async () => (await sql('select 1', [], { url: place.url })).body.code === '28P01',
      soon,
    );
    const { body } = await rowhouse.call('GET', `/projects/${place.slug}/connection`);
    expect((await sql('select 1', [], { url: body.connection.url })).status).toBe(200);
    await rowhouse.call('DELETE', `/projects/${place.slug}`);
    const url = body.connection.url;
    await until('gone', async () => (await sql('select 1', [], { url })).body.code === '28P01', soon);
  });
});

it('get the stored answer for a repeated request, also for failures', async () => {
  const headers = { 'idempotency-key': 'once' };
  const insert = "insert into notes (id, text) values (77, 'once')";
  const first = await sql(insert, [], { headers });
  const second = await sql(insert, [], { headers });
  expect(second.body).toEqual(first.body);
  expect(second.headers['idempotency-replayed']).toBe('true');
  const refused = { 'idempotency-key': 'refused' };
  expect((await sql('create table pg_catalog.x (id int)', [], { headers: refused })).body.code).toBe('42501');
  // Rights may have been given since: it runs again.
  const again = await sql('create table pg_catalog.x (id int)', [], { headers: refused });
  expect(again.headers['idempotency-replayed']).toBeUndefined();
});

it('that hang up end their statement', async () => {
  await rowhouse.app.listen({ port: 0, host: '127.0.0.1' });
  const { port } = rowhouse.app.server.address() as { port: number };
  const running = "select count(*) from pg_stat_activity where query like '%sleepy%' and state = 'active'";
  const others = async () => Number((await sql(running)).body.rows[0][0]);
  const before = await others();
  const body = JSON.stringify({ query: "select pg_sleep(50) as sleepy, 'x' as sleepy_too" });
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  socket.write(
    `POST /sql HTTP/1.1\r\nhost: x\r\ncontent-type: text/plain\r\nneon-connection-string: ${project.url}\r\n` +
      `content-length: ${body.length}\r\n\r\n${body}`,
  );
  await until('it runs', async () => (await others()) > before);
  socket.destroy();
  await until('it has ended', async () => (await others()) === before);
});

it('intervals are written as PostgreSQL itself writes them', async () => {
  const key = project.key;
  const query = `select i, i::text as text
    from (select make_interval(s % 3 - 1, s % 25 - 12, 0, s % 7 - 3, s % 49 - 24, s % 121 - 60, (s % 1000 - 500) / 7.0) as i
          from generate_series(1, 2000) as s
          union all values (interval '0'), ('infinity'), ('-infinity'), ('1 year'), ('-1 mon +1 day'), ('1 microsecond'),
            ('-0.5 s'), ('178000000 years'), ('-1 day 23:59:59.999999'), ('100 hours')) as given`;
  const body = { statements: [{ query: "select set_config('intervalstyle', 'postgres', true)" }, { query }] };
  const styled = await rowhouse.call('POST', `/projects/${project.slug}/batch`, { key, body });
  const texts = styled.body.results[1].rows.map(({ text }: { text: string }) => text);
  const plain = await rowhouse.call('POST', `/projects/${project.slug}/query`, { key, body: { query } });
  const isos = plain.body.rows.map(({ i }: { i: string }) => i);
  expect(isos[0]).toMatch(/^P/);
  expect(isos.map(toPostgresInterval)).toEqual(texts);
  expect(toPostgresIntervals('[0:1]={P1D,NULL}')).toBe('[0:1]={"1 day",NULL}');
  expect(toPostgresIntervals('{{PT1S},{-infinity}}')).toBe('{{"00:00:01"},{"-infinity"}}');
});
