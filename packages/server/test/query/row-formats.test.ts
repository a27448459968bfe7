// Rows as CSV and JSON lines.
import { request as httpRequest } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { copyOut } from '../../src/postgres/wire/copy-out.ts';
import { Session } from '../../src/postgres/wire/session.ts';
import { startupOptions } from '../../src/postgres/wire/startup-options.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { seatOf } from '../support/end-users.ts';
import { address, api, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();
let mine: { slug: string; id: string; key: string };
let base: string;
beforeAll(async () => {
  mine = await rowhouse.project('Formats');
  base = await rowhouse.app.listen({ port: 0, host: '127.0.0.1' });
  for (const text of [
    'create type pair as (n int, j json)',
    `create table kinds (id int primary key, t text, b boolean, n numeric, f float8, at timestamptz, d date, i interval,
       u uuid, y bytea, j json, jb jsonb, a text[], ja json[], p pair, "odd, ""name""" text)`,
    `insert into kinds values
      (1, 'plain', true, 1.50, 'NaN', '2026-11-14 09:30:00.123456+00', '2026-11-14', '1 day 2 hours',
       '00000000-0000-0000-0000-000000000001', '\\x00ff', E'{"a":\\n[1,\\r\\n2]}', '{"b": "x\\ny"}', '{a,"b c",NULL}',
       array[E'[1,\\n2]']::json[], row(1, E'{\\n}')::pair, 'x'),
      (2, '', false, null, 'Infinity', 'infinity', '-infinity', null, null, null, null, null, '{}', null, null, ''),
      (3, E'com,ma "quote"\\r\\nline', null, -1, 0, null, null, null, null, null, null, null, null, null, null, E'\\\\.'),
      (4, E'\\\\.', null, null, null, null, null, null, null, null, null, null, null, null, null, 'null'),
      (5, '=1+1', null, null, null, null, null, null, null, null, null, null, null, null, null, ' spaces ')`,
    'create table many (id int primary key, kind_id int references kinds)',
    'insert into many select n, 1 + n % 5 from generate_series(1, 1234) as n',
    'create table heap (n int)',
    'insert into heap select generate_series(1, 500)',
  ])
    expect((await run(text)).status).toBe(200);
});

const run = (query: string, more: object = {}, accept?: string) =>
  rowhouse.call('POST', `/projects/${mine.slug}/query`, {
    key: mine.key,
    body: { query, ...more },
    ...(accept && { headers: { accept } }),
  });
/** Through a socket, as text, so that a connection reads it itself. */
const get = (path: string, accept: string, key = mine.key, headers: Record<string, string> = {}) =>
  fetch(`${base}${api}/projects/${mine.slug}/${path}`, { headers: { 'x-api-key': key, accept, ...headers } });
const lines = (text: string) => {
  expect(text.endsWith('\n')).toBe(true);
  return text.slice(0, -1).split('\n');
};
const parsed = async (response: Response) => JSON.parse(await response.text());
const objects = (text: string) => lines(text).map((line) => JSON.parse(line));

let copying: Session | null = null;
afterAll(() => copying?.close());
/** What COPY writes, with the settings of our sessions. */
async function copied(query: string): Promise<string> {
  const settings = {
    TimeZone: 'UTC',
    IntervalStyle: 'iso_8601',
    DateStyle: 'ISO, MDY',
    search_path: 'public',
  };
  copying ??= await Session.open(
    { ...address(), database: databaseOf(mine.id) },
    { options: startupOptions(settings) },
  );
  const pieces: Uint8Array[] = [];
  const text = `copy (${query}) to stdout with (format csv, header true)`;
  for await (const piece of copyOut(copying, text)) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

describe('CSV', () => {
  it('is byte for byte what COPY writes, NULL and the empty string told apart', async () => {
    const query = 'select * from kinds order by id';
    const csv = await run(query, {}, 'text/csv');
    expect(csv.status).toBe(200);
    expect(csv.headers['content-type']).toBe('text/csv; charset=utf-8; header=present');
    expect(csv.body).toBe(await copied(query));
    const table = await get('tables/kinds', 'text/csv');
    expect([table.status, table.headers.get('content-type')]).toEqual([200, csv.headers['content-type']]);
    expect(await table.text()).toBe(csv.body);
    const empties = "select null::text as a, '' as b, '\\.' as c union all select 'x', null, null";
    expect((await run(empties, {}, 'text/csv')).body).toBe('a,b,c\n,"",\\.\nx,,\n');
    const alone = "select unnest(array['\\.', null, '', 'x']) as a";
    expect((await run(alone, {}, 'text/csv')).body).toBe(await copied(alone));
  });

  it('can be imported again as it is', async () => {
    await run('create table again (id int primary key, t text, j json, a text[], at timestamptz)');
    const csv = await (await get('tables/kinds?select=id,t,j,a,at', 'text/csv')).text();
    const imported = await rowhouse.call('POST', `/projects/${mine.slug}/tables/again`, {
      key: mine.key,
      raw: csv,
      headers: { 'content-type': 'text/csv' },
    });
    expect(imported.body).toEqual({ ok: true, row_count: 5 });
    const differing = `select id from again full join kinds using (id)
      where (again.t, again.a, again.at, again.j::text) is distinct from (kinds.t, kinds.a, kinds.at, kinds.j::text)`;
    expect((await run(differing)).body.rows).toEqual([]);
  });

  it('has a header without rows, and nothing for a statement that returns none', async () => {
    expect((await run('select 1 as a, 2 as b where false', {}, 'text/csv')).body).toBe('a,b\n');
    const nothing = await run('create table if not exists many (id int)', {}, 'text/csv');
    expect([nothing.status, nothing.body]).toEqual([200, '']);
    expect((await run('insert into heap values (0) returning n', { dry_run: true }, 'text/csv')).body).toBe(
      'n\n0\n',
    );
  });
});

describe('JSON lines', () => {
  it('are the rows of the JSON answer, each on one line whatever the values are', async () => {
    const query = 'select * from kinds order by id';
    const { rows } = (await run(query)).body;
    const answer = await get('tables/kinds', 'application/x-ndjson');
    expect(answer.headers.get('content-type')).toBe('application/x-ndjson; charset=utf-8');
    expect(objects(await answer.text())).toEqual(rows);
    // The same statement in every form in turn: no form is kept for another.
    for (const accept of [
      'application/jsonl',
      '*/*',
      'text/csv',
      'application/x-ndjson',
      'application/json',
    ]) {
      const again = await get('tables/kinds', accept);
      const text = await again.text();
      if (accept.includes('jsonl') || accept.includes('ndjson')) expect(objects(text)).toEqual(rows);
      else if (accept === 'text/csv') expect(text).toBe(await copied(query));
      else expect(JSON.parse(text).rows).toEqual(rows);
    }
  });

  it('have embedded rows, strings for numbers, and nothing but rows', async () => {
    const path = 'tables/many?select=id,kinds(j,t)&id=lte.2&numbers=string';
    const { rows } = await parsed(await get(path, '*/*'));
    expect(objects(await (await get(path, 'application/x-ndjson')).text())).toEqual(rows);
    const aggregated = 'select json_agg(many order by id) as all from many where id < 4';
    expect(objects((await stream(aggregated, 'application/jsonl')).text)).toHaveLength(1);
    expect((await stream('select 1 where false', 'application/x-ndjson')).text).toBe('');
  });
});

describe('of a table', () => {
  it('come all rows, unless there is a limit', async () => {
    for (const [path, count] of [
      ['tables/many', 1234],
      ['tables/heap', 500],
      ['tables/many?limit=7', 7],
      ['tables/many?limit=1000&page=2', 234],
      ['tables/many?id=gt.1000&order=id.desc', 234],
    ] as const) {
      const rows = objects(await (await get(path, 'application/x-ndjson')).text());
      expect([path, rows.length]).toEqual([path, count]);
      const csv = lines(await (await get(path, 'text/csv')).text());
      expect([path, csv.length]).toEqual([path, count + 1]);
    }
    const first = await parsed(await get('tables/many?limit=1000', '*/*'));
    const rest = await get(`tables/many?cursor=${first.next_cursor}`, 'application/x-ndjson');
    expect(objects(await rest.text())[0]).toEqual({ id: 1001, kind_id: 2 });
  });

  it.each([
    ['tables/many?page=2', 'page'],
    ['tables/many?count=exact', 'count'],
    ['tables/many?limit=10001', 'limit'],
  ])('%s is refused, in JSON', async (path, parameter) => {
    const answer = await get(path, 'text/csv');
    expect(answer.status).toBe(400);
    expect((await parsed(answer)).error.details[0].path).toBe(parameter);
  });

  it('come what the key and row security allow', async () => {
    const seat = await seatOf(rowhouse, mine);
    await seat.query('create table notes (id int primary key, secret text)');
    await seat.query('alter table notes enable row level security');
    await seat.query("insert into notes values (1, 'shown'), (2, 'hidden')");
    await seat.query('create policy p on notes for select to anon using (id = 1)');
    await seat.query('grant select on notes to anon');
    const answer = await get('tables/notes', 'text/csv', seat.publishable);
    expect(await answer.text()).toBe('id,secret\n1,shown\n');
    expect((await get('tables/kinds', 'text/csv', seat.publishable)).status).toBe(403);
    expect((await get('tables/nope', 'text/csv')).status).toBe(404);
  });
});

describe('a long answer', () => {
  it('of long values is whole, in every form', async () => {
    const long = `select n, repeat('a,"b"' || chr(10), 100000) as t, ('[' || repeat('1,' || chr(10), 100000) || '1]')::json as j
      from generate_series(1, 2) as n`;
    const { rows } = (await run(long)).body;
    expect(objects((await stream(long, 'application/x-ndjson')).text)).toEqual(rows);
    const csv = String((await run(long, {}, 'text/csv')).body);
    const field = (text: string) => `"${text.replaceAll('"', '""')}"`;
    const j = `[${'1,\n'.repeat(100_000)}1]`;
    const expected = `n,t,j\n${rows.map((row: { n: number; t: string }) => `"${row.n}",${field(row.t)},${field(j)}\n`).join('')}`;
    // Not toBe: it would print the whole of a difference this large.
    expect(csv === expected).toBe(true);
  });

  it.each(['text/csv', 'application/x-ndjson'])('as %s streams, and is cut if it fails', async (accept) => {
    const failing =
      "select n, repeat('x', 1000) as t, 1 / (5000 - n) as q from generate_series(1, 10000) as n";
    const { status, text, isWhole } = await stream(failing, accept);
    expect([status, isWhole]).toEqual([200, false]);
    expect(text.length).toBeGreaterThan(200_000);
    expect(text.length).toBeLessThan(5_000 * 1_100);
    const early = await stream('select 1 / 0', accept);
    expect([early.status, early.isWhole, JSON.parse(early.text).error.code]).toEqual([
      400,
      true,
      'sql_error',
    ]);
  });

  it('that nobody reads stops PostgreSQL, and takes no memory', async () => {
    const endless =
      "select n, repeat('x', 1000) as t, 'unread csv' as mark from generate_series(1, 10000000) as n";
    const before = process.memoryUsage().rss;
    const { response, end } = await open(endless, 'text/csv');
    expect(response.statusCode).toBe(200);
    const waiting = `select 1 from pg_stat_activity where query like '%unread csv%' and pid <> pg_backend_pid()
      and wait_event = 'ClientWrite'`;
    await until('PostgreSQL waits for the reader', async () => (await run(waiting)).body.row_count > 0);
    // 10 GB would not fit.
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024);
    end();
    await until('the statement ends', async () => (await run(waiting)).body.row_count === 0);
  });
});

it('max_affected and read_only hold, and their errors are JSON', async () => {
  const over = await run('delete from heap returning n', { max_affected: 3 }, 'text/csv');
  expect([over.status, over.body.error.code]).toEqual([409, 'conflict']);
  const within = await run('delete from heap where n <= 2 returning n', { max_affected: 3 }, 'text/csv');
  expect(within.body).toBe('n\n1\n2\n');
  expect((await run('delete from heap', { read_only: true }, 'text/csv')).status).toBe(400);
});

it('a repeat by Idempotency-Key gets the stored answer in its form', async () => {
  const headers = { accept: 'text/csv', 'idempotency-key': 'csv-1' };
  const insert = () =>
    rowhouse.call('POST', `/projects/${mine.slug}/query`, {
      key: mine.key,
      headers,
      body: { query: 'insert into heap values (9001) returning n' },
    });
  expect((await insert()).body).toBe('n\n9001\n');
  const again = await insert();
  expect([again.body, again.headers['content-type'], again.headers['idempotency-replayed']]).toEqual([
    ...['n\n9001\n', 'text/csv; charset=utf-8; header=present', 'true'],
  ]);
});

async function open(query: string, accept: string) {
  const url = new URL(`${base}${api}/projects/${mine.slug}/query`);
  const headers = { 'x-api-key': mine.key, 'content-type': 'application/json', accept };
  const sent = httpRequest(url, { method: 'POST', headers });
  sent.end(JSON.stringify({ query }));
  const response = await new Promise<import('node:http').IncomingMessage>((resolve, reject) => {
    sent.once('response', resolve).once('error', reject);
  });
  return { response, end: () => sent.destroy() };
}

async function stream(query: string, accept: string) {
  const { response } = await open(query, accept);
  const pieces: Buffer[] = [];
  const isWhole = await new Promise<boolean>((resolve) => {
    response.on('data', (piece: Buffer) => pieces.push(piece));
    response.on('error', () => resolve(false)).on('end', () => resolve(true));
  });
  return { status: response.statusCode, text: Buffer.concat(pieces).toString(), isWhole };
}
