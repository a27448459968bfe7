// Rows that come and go over HTTP. What the statements do in depth is in table-write.test.ts and table-import.test.ts.
import { type AddressInfo, connect } from 'node:net';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { api, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 2, connections: { budget: 20, share: 6 } });
let mine: { slug: string; id: string; key: string };
let port = 0;

const run = async (query: string) =>
  (await rowhouse.call('POST', `/projects/${mine.slug}/query`, { key: mine.key, body: { query } })).body;
const send = (method: string, rest: string, body?: unknown, headers: Record<string, string> = {}) =>
  rowhouse.call(method, `/projects/${mine.slug}/tables/${rest}`, {
    key: mine.key,
    headers,
    ...(typeof body === 'string' ? { raw: body } : body === undefined ? {} : { body }),
  });
const rowsOf = async (table: string) => (await send('GET', `${table}?limit=1000`)).body.rows;

beforeAll(async () => {
  mine = await rowhouse.project('Changes');
  await rowhouse.app.listen({ host: '127.0.0.1', port: 0 });
  port = (rowhouse.app.server.address() as AddressInfo).port;
  await run(
    `create table items (id bigint generated always as identity primary key, name text not null unique, price numeric(10,2) check (price >= 0), tags text[], data jsonb, made_at timestamptz not null default '2026-01-01', double numeric generated always as (price * 2) stored)`,
  );
  await run('create table parts (item bigint references items, n int)');
});
beforeEach(async () => {
  await run('truncate items restart identity cascade');
});

describe('inserting by the table endpoint', () => {
  it('returns the row as stored, including defaults', async () => {
    const { status, body } = await send('POST', 'items', {
      name: 'Tea',
      price: 1.5,
      tags: ['a', null, 'b"c'],
      data: 'x',
    });
    expect([status, body]).toEqual([
      201,
      {
        ok: true,
        row: {
          id: 1,
          name: 'Tea',
          price: 1.5,
          tags: ['a', null, 'b"c'],
          data: 'x',
          made_at: '2026-01-01T00:00:00Z',
          double: 3,
        },
      },
    ]);
  });

  it('names the row that failed, not an internal statement', async () => {
    const { body } = await send('POST', 'items', [{ name: 'a' }, { name: 'b', price: 'x' }]);
    expect(body.error.details).toEqual({ columns: ['price'], type: 'numeric(10,2)', index: 1 });
  });

  it('keeps the connection usable after an import that fails early', async () => {
    const lines = `name,price\nx,none\n${'y,1\n'.repeat(1_000_000)}`;
    const head = `HTTP/1.1\r\nHost: x\r\nX-API-Key: ${mine.key}\r\n`;
    const path = `${api}/projects/${mine.slug}/tables/items`;
    const socket = connect(port, '127.0.0.1');
    let answers = '';
    socket.on('data', (piece) => {
      answers += piece;
    });
    socket.write(`POST ${path} ${head}Content-Type: text/csv\r\nContent-Length: ${lines.length}\r\n\r\n`);
    socket.write(lines);
    socket.write(`GET ${path} ${head}\r\n`);
    await until('both are answered', async () => /HTTP\/1.1 422.*HTTP\/1.1 200/s.test(answers));
    socket.destroy();
  });

  it('is not slowed down by a long run of blanks in an invalid value', async () => {
    await run('create table if not exists short (v varchar(3))');
    const startedAt = performance.now();
    const { status } = await send('POST', 'short', { v: `${' '.repeat(200_000)}x` });
    expect(status).toBe(422);
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });

  it('takes many rows all or nothing, in order, each with its own columns', async () => {
    const rows = [
      { name: 'a' },
      { name: 'b', price: 2 },
      { name: 'c', price: 3 },
      { name: 'd', made_at: '2020-02-02' },
    ];
    const { status, body } = await send('POST', 'items?select=id,name,price', rows);
    expect([status, body.row_count]).toEqual([201, 4]);
    expect(body.rows).toEqual([
      { id: 1, name: 'a', price: null },
      { id: 2, name: 'b', price: 2 },
      { id: 3, name: 'c', price: 3 },
      { id: 4, name: 'd', price: null },
    ]);
    const failed = await send('POST', 'items', [{ name: 'e' }, { name: 'f', price: 1 }, { name: 'a' }]);
    expect([failed.status, failed.body.error.code]).toEqual([409, 'conflict']);
    expect(await rowsOf('items')).toHaveLength(4);
    expect((await send('POST', 'items', [])).body).toMatchObject({ rows: [], row_count: 0 });
  });

  it('keeps every digit', async () => {
    const raw = '{"name": "big", "data": {"n": 12345678901234567890.123456789}}';
    expect((await send('POST', 'items', raw)).status).toBe(201);
    const { rows } = await run("select data->>'n' as n from items");
    expect(rows).toEqual([{ n: '12345678901234567890.123456789' }]);
  });

  it('returns the types when numbers are strings', async () => {
    const told = { columns: ['id', 'name'], types: ['int8', 'text'] };
    const rest = 'items?select=id,name&numbers=string';
    expect((await send('POST', rest, { name: '1' })).body).toEqual({
      ok: true,
      row: { id: '1', name: '1' },
      ...told,
    });
    // Other keys are other statements.
    const { body } = await send('POST', rest, [{ name: '2' }, { name: '3', price: 1 }]);
    expect(body).toEqual({
      ok: true,
      rows: [2, 3].map((n) => ({ id: String(n), name: String(n) })),
      row_count: 2,
      ...told,
    });
    const ignored = await send('POST', `${rest}&resolution=ignore&on_conflict=name`, { name: '1' });
    expect(ignored.body).toEqual({ ok: true, row: null, ...told });
    expect((await send('DELETE', `${rest}&id=eq.1`)).body).toMatchObject({ row_count: 1, ...told });
    expect((await send('PATCH', `${rest}&id=eq.9`, { price: 2 })).body).toMatchObject({ rows: [], ...told });
    expect((await send('DELETE', 'items?id=eq.2&numbers=string&returning=minimal')).body).toEqual({
      ok: true,
      row_count: 1,
    });
  });

  it('returns nothing on request', async () => {
    expect((await send('POST', 'items?returning=minimal', { name: 'x' })).body).toEqual({
      ok: true,
      row_count: 1,
    });
    expect(
      (await send('POST', 'items?returning=minimal', [{ name: 'y' }, { name: 'z', price: 1 }])).body,
    ).toEqual({
      ok: true,
      row_count: 2,
    });
  });

  it('can merge with existing rows or ignore them', async () => {
    await send('POST', 'items', { name: 'Tea', price: 1 });
    const merged = await send('POST', 'items?on_conflict=name&resolution=merge&select=id,price', {
      name: 'Tea',
      price: 2,
    });
    expect([merged.status, merged.body.row]).toEqual([201, { id: 1, price: 2 }]);
    const ignored = await send('POST', 'items?on_conflict=name&resolution=ignore', { name: 'Tea', price: 3 });
    expect([ignored.status, ignored.body.row]).toEqual([200, null]);
    expect((await rowsOf('items'))[0].price).toBe(2);
    expect((await send('POST', 'items?on_conflict=price&resolution=merge', { name: 'a' })).status).toBe(400);
  });

  it.each<[string, unknown, number, string, string]>([
    ['an unknown column', { nam: 'x' }, 400, 'invalid_request', 'name'],
    ['a missing column', { price: 1 }, 422, 'constraint_violation', 'name'],
    ['a wrong type', { name: 'x', price: 'cheap' }, 422, 'constraint_violation', 'price'],
    ['a check', { name: 'x', price: -1 }, 422, 'constraint_violation', 'items_price_check'],
    ['an identity column', { id: 5, name: 'x' }, 400, 'invalid_request', 'id'],
    ['a generated column', { name: 'x', double: 1 }, 400, 'invalid_request', 'double'],
    ['no object', '"text"', 400, 'invalid_request', ''],
    ['null', 'null', 400, 'invalid_request', ''],
    ['no body', '', 400, 'invalid_request', ''],
    ['broken JSON', '{"name": ', 400, 'invalid_json', ''],
    ['a NUL', '{"name": "a\\u0000b"}', 400, 'invalid_request', 'name'],
    ['rows that are none', '[{"name": "a"}, 5]', 400, 'invalid_request', '1'],
    ['a prototype', '{"__proto__": {"name": "x"}}', 400, 'invalid_request', '__proto__'],
  ])('refuses %s', async (_what, body, status, code, word) => {
    const answer = await send('POST', 'items', body);
    expect([answer.status, answer.body.error?.code]).toEqual([status, code]);
    expect(JSON.stringify(answer.body.error)).toContain(word);
    expect(await rowsOf('items')).toEqual([]);
  });

  it('names the table in which a reference is missing', async () => {
    const { status, body } = await send('POST', 'parts', { item: 99, n: 1 });
    expect([status, body.error.code]).toEqual([422, 'constraint_violation']);
    expect(body.error.message).toContain('items');
  });

  it('happens once with an Idempotency-Key', async () => {
    const headers = { 'idempotency-key': 'once' };
    const first = await send('POST', 'items', { name: 'Once' }, headers);
    const again = await send('POST', 'items', { name: 'Once' }, headers);
    expect([again.status, again.body]).toEqual([first.status, first.body]);
    expect(await rowsOf('items')).toHaveLength(1);
    expect((await send('POST', 'items', { name: 'Other' }, headers)).status).toBe(409);
  });
});

describe('changing and deleting by the table endpoint', () => {
  beforeEach(async () => {
    await send(
      'POST',
      'items',
      [1, 2, 3, 4, 5].map((n) => ({ name: `n${n}`, price: n })),
    );
  });

  it('affects the rows that match the filter', async () => {
    const changed = await send('PATCH', 'items?price=gte.4&select=name,price', { price: 9, tags: ['x'] });
    expect(changed.body).toEqual({
      ok: true,
      rows: [
        { name: 'n4', price: 9 },
        { name: 'n5', price: 9 },
      ],
      row_count: 2,
    });
    const deleted = await send('DELETE', 'items?or=(name.eq.n1,price.eq.9)&returning=minimal');
    expect(deleted.body).toEqual({ ok: true, row_count: 3 });
    expect((await rowsOf('items')).map(({ name }: { name: string }) => name)).toEqual(['n2', 'n3']);
    expect((await send('DELETE', 'items?name=eq.none')).body).toEqual({ ok: true, rows: [], row_count: 0 });
  });

  it('never affects all rows by accident', async () => {
    for (const [method, rest] of [
      ['DELETE', 'items'],
      ['DELETE', 'items?returning=minimal'],
      ['PATCH', 'items?select=id'],
    ] as const) {
      const { status, body } = await send(method, rest, method === 'PATCH' ? { price: 0 } : undefined);
      expect([status, body.error.code]).toEqual([400, 'invalid_request']);
    }
    const many = await send('DELETE', 'items?price=gt.0&max_affected=4');
    expect([many.status, many.body.error.code]).toEqual([409, 'conflict']);
    expect(await rowsOf('items')).toHaveLength(5);
    expect((await send('DELETE', 'items?price=gt.0&max_affected=5')).body.row_count).toBe(5);
  });

  it('refuses what makes no sense', async () => {
    expect((await send('PATCH', 'items?id=eq.1', {})).status).toBe(400);
    expect((await send('PATCH', 'items?id=eq.1', [{ price: 1 }])).status).toBe(400);
    expect((await send('PATCH', 'items?id=eq.1', { nothing: 1 })).status).toBe(400);
    expect((await send('PATCH', 'items?id=eq.1&max_affected=some', { price: 1 })).status).toBe(400);
    expect((await send('POST', 'items?id=eq.1', { name: 'q' })).status).toBe(400);
    expect((await send('DELETE', 'nowhere?id=eq.1')).status).toBe(404);
  });

  it('is refused for a view that cannot be written', async () => {
    await run('create or replace view sums as select count(*) as n from items');
    const { status, body } = await send('POST', 'sums', { n: 1 });
    expect([status, body.error.code]).toEqual([405, 'method_not_allowed']);
    expect(body.error.message + body.error.hint).toMatch(/view/);
  });
});

describe('imports by the table endpoint', () => {
  const csv = { 'content-type': 'text/csv' };
  it('take CSV and JSON lines', async () => {
    const imported = await send('POST', 'items', 'name,price\nTea,1.50\n"Cof""fee",\n', csv);
    expect([imported.status, imported.body]).toEqual([201, { ok: true, row_count: 2 }]);
    const lines = '{"name":"Bread","tags":["a","b"]}\n{"name":"Salt","tags":null}\n';
    expect(
      (await send('POST', 'items', lines, { 'content-type': 'application/x-ndjson' })).body.row_count,
    ).toBe(2);
    expect((await rowsOf('items')).map(({ name, price }: never) => [name, price])).toEqual([
      ['Tea', 1.5],
      ['Cof"fee', null],
      ['Bread', null],
      ['Salt', null],
    ]);
  });

  it('are all or nothing and say where they failed', async () => {
    const { status, body } = await send('POST', 'items', 'name,price\nTea,1\nBad,abc\n', csv);
    expect([status, body.error.details]).toMatchObject([422, { line: 3, column: 'price' }]);
    expect((await send('POST', 'items', 'name,pryce\nTea,1\n', csv)).status).toBe(400);
    expect((await send('POST', 'items?returning=row', 'name\nTea\n', csv)).status).toBe(400);
    expect(await rowsOf('items')).toEqual([]);
  });

  it('are inserts only: a change takes JSON', async () => {
    const { status, body } = await send('PATCH', 'items?id=eq.1', 'name\nTea\n', csv);
    expect([status, body.error.code]).toEqual([415, 'unsupported_media_type']);
  });

  it('leave nothing behind when the sender disconnects', async () => {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => {});
    socket.write(
      `POST ${api}/projects/${mine.slug}/tables/items HTTP/1.1\r\nHost: x\r\nX-API-Key: ${mine.key}\r\n` +
        'Content-Type: text/csv\r\nContent-Length: 100000\r\n\r\nname,price\nTea,1\nCoffee,2\n',
    );
    const busy = () => {
      const { open, idle } = rowhouse.service.deps.query.sessions.counts();
      return open - idle;
    };
    await until('it is being read', async () => busy() === 1);
    socket.destroy();
    await until('it is given up', async () => busy() === 0);
    expect(await rowsOf('items')).toEqual([]);
  });
});

describe('keys at the table endpoint', () => {
  it('for reading do not write, and keys for some tables write only to those', async () => {
    const issue = async (body: object) =>
      (await rowhouse.call('POST', `/projects/${mine.slug}/keys`, { body })).body.api_key as string;
    const reads = await issue({ name: 'r', scopes: ['tables:read'] });
    const writes = await issue({ name: 'w', scopes: ['tables:write'], tables: ['parts'] });
    const as = (key: string, method: string, rest: string, body?: object) =>
      rowhouse.call(method, `/projects/${mine.slug}/tables/${rest}`, { key, ...(body && { body }) });
    expect((await as(reads, 'POST', 'items', { name: 'x' })).status).toBe(403);
    expect((await as(reads, 'DELETE', 'items?id=eq.1')).status).toBe(403);
    expect((await as(writes, 'POST', 'items', { name: 'x' })).status).toBe(404);
    expect((await as(writes, 'POST', 'parts', { n: 1 })).status).toBe(201);
    expect((await as(writes, 'GET', 'parts')).status).toBe(403);
    expect((await as(writes, 'PATCH', 'parts?n=eq.1', { n: 2 })).status).toBe(403);
    expect((await as(writes, 'PATCH', 'parts?n=eq.1&returning=minimal', { n: 2 })).body.row_count).toBe(1);
    expect((await as(writes, 'DELETE', 'parts?n=eq.2')).status).toBe(403);
  });
});
