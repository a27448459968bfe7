// Large arrays of rows are copied if the caller wants no rows back. The stored values and the errors are those of the
// ordinary insert, which a body that begins with a space takes. Only its limit on the number of values does not apply.
import { randomBytes } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { type Answer, asAdmin, until, useTestService } from '../support/helpers.ts';
import { openTableSession } from '../support/table-session.ts';

const rowhouse = useTestService({ spares: 2, connections: { budget: 10, share: 1 } });
type Project = { slug: string; id: string; key: string };
let mine: Project;
let neighbour: Project;
let port: number;

const run = async (query: string, project = mine) => {
  const call = { key: project.key, body: { query } };
  const { status, body } = await rowhouse.call('POST', `/projects/${project.slug}/query`, call);
  expect(status, JSON.stringify(body)).toBe(200);
  return body.rows;
};
const post = (table: string, raw: string | Buffer, { key = mine.key, headers = {}, project = mine } = {}) =>
  rowhouse.call('POST', `/projects/${project.slug}/tables/${table}?returning=minimal`, { key, headers, raw });
/** `wasCopied`: whether the session has the guard of a copy. */
const wasCopied = async (table: string) => {
  const [{ count }] = await run(
    `select count(*) from pg_prepared_statements where statement like 'select from only "public"."${table}" where %limit 0'`,
  );
  return Number(count) > 0;
};
const filler = 'f'.repeat(100);
/** So many that the body is copied. */
const many = (row: (n: number) => object, count = 100) =>
  JSON.stringify(Array.from({ length: count }, (_, n) => ({ id: n + 1, ...row(n), filler })));

beforeAll(async () => {
  mine = await rowhouse.project('Arrays');
  neighbour = await rowhouse.project('Neighbour');
  await rowhouse.app.listen({ host: '127.0.0.1', port: 0 });
  port = (rowhouse.app.server.address() as AddressInfo).port;
});

describe('a large array without rows back', () => {
  const columns = `(id bigint primary key, filler text, t text, v varchar(5), n numeric, p numeric(10,2), b bigint, i int, d double precision,
    ok boolean, j jsonb, at timestamptz, day date, u uuid, x bytea, k text default 'default', z int generated always as (i + 1) stored)`;

  it('stores the same values as the ordinary insert', async () => {
    await run(`create table copied ${columns}`);
    await run(`create table inserted ${columns}`);
    const values = [
      ...[
        { t: 'tab\tnew\nline\r\\ "quoted" \\N \\. é 😀 \u2028', v: 'abcde' },
        { t: '', v: null },
      ],
      ...[
        { n: 1.5, p: 19.9, b: 9007199254740991, i: -1, d: 0.1 },
        { n: 0, d: 1e-7, p: 3 },
        { n: 1e21, d: 1e300 },
      ],
      ...[
        { ok: true, t: true, n: '12.50', i: '7' },
        { ok: false, t: 12.5 },
        { ok: 'yes', t: false },
      ],
      ...[
        { j: { a: [1, 1.5, 'x', null, true], b: { c: '"\\\n' } } },
        { j: 'text' },
        { j: [] },
        { j: 5 },
        { j: true },
      ],
      ...[
        {
          at: '2026-01-01T10:00:00.123456+02:00',
          day: '2026-02-03',
          u: '5f0f0f0f-0000-4000-8000-000000000001',
        },
      ],
      ...[{ x: '\\x00ff', t: { an: 'object' } }, { t: '\u0001\u007f' }],
    ];
    const names = ['t', 'v', 'n', 'p', 'b', 'i', 'd', 'ok', 'j', 'at', 'day', 'u', 'x'];
    const whole = (row: object) => ({ ...Object.fromEntries(names.map((name) => [name, null])), ...row });
    const body = many((n) => whole(values[n % values.length] as object))
      // Numbers as JSON.stringify never writes them.
      .replace('"n":1.5,', '"n":1.500,')
      .replace('"b":9007199254740991', '"b":9223372036854775807')
      .replace('[1,1.5,"x"', '[1.0,1.50,12345678901234567890.12345678901234567890,1e2,"x"')
      .replace('"n":0,', '"n":-123456789012345678901234567890.123456789,')
      .replace('é 😀', '\\u00e9 \\ud83d\\ude00');
    expect((await post('copied', body)).body).toEqual({ ok: true, row_count: 100 });
    expect((await post('inserted', ` ${body}`)).body).toEqual({ ok: true, row_count: 100 });
    expect(await wasCopied('copied')).toBe(true);
    expect(await wasCopied('inserted')).toBe(false);
    const rows = await run(
      'select count(*), count(distinct c::text) from (select copied::text from copied union all select inserted::text from inserted) as rows (c)',
    );
    expect(rows).toEqual([{ count: 200, count_2: 100 }]);
    expect(await run('select b, n, j::text, k, z from copied where id in (1, 3, 9) order by id')).toEqual(
      await run('select b, n, j::text, k, z from inserted where id in (1, 3, 9) order by id'),
    );
    expect(await run('select b::text from copied where id = 3')).toEqual([{ b: '9223372036854775807' }]);
  });

  it('accepts white space, keys in another order, and long rows', async () => {
    await run('create table loose (id int primary key, filler text, t text, j jsonb)');
    const rows = Array.from({ length: 100 }, (_, n) =>
      n % 3 === 0
        ? { id: n, filler, t: 'x', j: {} }
        : { j: { n }, t: n === 50 ? 'y'.repeat(30_000) : 'é', filler, id: n },
    );
    expect((await post('loose', JSON.stringify(rows, null, 2))).body).toEqual({ ok: true, row_count: 100 });
    expect(await wasCopied('loose')).toBe(true);
    expect(await run('select count(*), max(length(t)), sum((j->>$$n$$)::int) from loose')).toEqual([
      { count: 100, max: 30_000, sum: rows.reduce((sum, { j }) => sum + ((j as { n?: number }).n ?? 0), 0) },
    ]);
  });

  it('of many pieces is complete and in order', async () => {
    await run('create table long (id int, filler text, t text, place bigint generated always as identity)');
    const body = many((n) => ({ t: `${n} é\t`.repeat(n % 30) }), 30_000);
    expect(body.length).toBeGreaterThan(6_000_000);
    expect((await post('long', body)).body).toEqual({ ok: true, row_count: 30_000 });
    expect(await wasCopied('long')).toBe(true);
    expect(
      await run(
        "select count(*) from long where place = id and t = repeat((id - 1) || E' é\\t', (id - 1) % 30) and length(filler) = 100",
      ),
    ).toEqual([{ count: 30_000 }]);
    await run('drop table long');
  });

  it('uses the defaults of columns that are missing', async () => {
    await run(
      `create table defaults (id int, filler text, n bigint generated by default as identity, k text default 'k')`,
    );
    expect(
      (
        await post(
          'defaults',
          many(() => ({})),
        )
      ).status,
    ).toBe(201);
    expect(await wasCopied('defaults')).toBe(true);
    expect(await run('select min(n), max(n), min(k) from defaults')).toEqual([
      { min: 1, max: 100, min_2: 'k' },
    ]);
    // The next request does not see the state of the sequence.
    const { body } = await rowhouse.call('POST', `/projects/${mine.slug}/query`, {
      key: mine.key,
      body: { query: 'select lastval()' },
    });
    expect(body.error.sql.state).toBe('55000');
  });

  it('is not copied where rows have different keys, or the table runs code or has arrays', async () => {
    await run('create table mixed (id int, filler text, a int default 5)');
    expect(
      (
        await post(
          'mixed',
          many((n) => (n === 60 ? { a: 1 } : {})),
        )
      ).body.row_count,
    ).toBe(100);
    expect(await run('select sum(a) from mixed')).toEqual([{ sum: 99 * 5 + 1 }]);
    await run('create table listed (id int, filler text, a int[])');
    expect(
      (
        await post(
          'listed',
          many(() => ({ a: [1, 2] })),
        )
      ).body.row_count,
    ).toBe(100);
    await run('create table judged (id int, filler text)');
    await run(`create function judge() returns trigger language plpgsql as $$begin
      if new.id = 3 then return null; end if; new.id := -new.id; return new; end$$`);
    await run('create trigger judge before insert on judged for each row execute function judge()');
    expect(
      (
        await post(
          'judged',
          many(() => ({})),
        )
      ).body.row_count,
    ).toBe(99);
    for (const table of ['mixed', 'listed', 'judged']) expect(await wasCopied(table)).toBe(false);
  });
});

describe('an invalid array', () => {
  const comparable = ({ status, body }: Answer) => [status, { ...body, request_id: '' }];

  beforeAll(async () => {
    await run('create table targets (id int primary key)');
    await run('insert into targets values (1)');
    await run(`create table strict (id int primary key, filler text, i int, v varchar(3), p numeric(4,2), c int check (c < 10),
      r int references targets, u int unique, nn int not null default 1, j jsonb, made int generated always as (i) stored)`);
  });

  it.each<[string, (n: number) => object]>([
    ['a value of another type', (n) => ({ i: n === 70 ? 'none' : 1 })],
    ['a number out of range', (n) => ({ i: n === 70 ? 3_000_000_000 : 1 })],
    ['a text that is too long', (n) => ({ v: n === 70 ? 'abcd' : 'abc' })],
    ['a numeric overflow', (n) => ({ p: n === 70 ? 1000 : 1 })],
    ['a violated check', (n) => ({ c: n === 70 ? 10 : 1 })],
    ['a foreign key', (n) => ({ r: n === 70 ? 2 : 1 })],
    ['a unique key', (n) => ({ u: n === 70 ? 1 : n })],
    ['a null', (n) => ({ nn: n === 70 ? null : 1 })],
    ['an object for a number', (n) => ({ i: n === 70 ? {} : 1 })],
    ['an unknown column', () => ({ nothing: 1 })],
    ['a generated column', () => ({ made: 1 })],
    ['a NUL character', (n) => ({ v: n === 70 ? '\0' : 'a' })],
    ['a NUL character in JSON', (n) => ({ j: n === 70 ? ['\0'] : [] })],
    ['a lone surrogate', (n) => ({ v: n === 70 ? '\ud800' : 'a' })],
    ['a row that is none', (n) => (n === 70 ? { toJSON: () => 5 } : { i: 1 })],
  ])('gives the same error: %s', async (_name, row) => {
    const body = many(row);
    const copied = await post('strict', body);
    expect(copied.status).toBeGreaterThanOrEqual(400);
    expect(comparable(copied)).toEqual(comparable(await post('strict', ` ${body}`)));
    expect(await run('select count(*) from strict')).toEqual([{ count: 0 }]);
  });

  it.each<[string, (body: string) => string | Buffer]>([
    ['cut off', (body) => body.slice(0, -20)],
    ['cut off before the bracket', (body) => body.slice(0, -1)],
    ['with more behind it', (body) => `${body}]`],
    ['with a comma too many', (body) => `${body.slice(0, -1)},]`],
    ['without a comma', (body) => body.replace('},{', '}{')],
    ['with two commas', (body) => body.replace('},{', '},,{')],
    ['with invalid JSON inside', (body) => body.replace('[7]', '[7}')],
    ['with an invalid number', (body) => body.replace('[7]', '[07]')],
    [
      'with invalid UTF-8',
      (body) =>
        Buffer.concat([Buffer.from(body.slice(0, 30)), Buffer.from([0xff]), Buffer.from(body.slice(30))]),
    ],
  ])('gives the same error: %s', async (_name, spoil) => {
    const body = spoil(many((n) => ({ j: n === 70 ? [7] : [] })));
    const copied = await post('strict', body);
    const inserted = await post('strict', Buffer.concat([Buffer.from('\n'), Buffer.from(body as string)]));
    expect([copied.status, copied.body.error.code]).toEqual([400, 'invalid_json']);
    expect(copied.body.error.code).toBe(inserted.body.error.code);
    expect(await run('select count(*) from strict')).toEqual([{ count: 0 }]);
  });

  it('gives the same error: the table does not exist', async () => {
    const copied = await post(
      'strickt',
      many(() => ({})),
    );
    expect(comparable(copied)).toEqual(comparable(await post('strickt', ` ${many(() => ({}))}`)));
    expect(copied.status).toBe(404);
  });
});

describe('a copy', () => {
  it('notices that the table has changed since the last one', async () => {
    await run('create table moving (id int, filler text, v text)');
    const body = many(() => ({ v: '123' }));
    expect((await post('moving', body)).status).toBe(201);
    await run('truncate moving');
    await run('alter table moving alter v type jsonb using null');
    expect((await post('moving', body)).status).toBe(201);
    expect(await run('select distinct jsonb_typeof(v) as type from moving')).toEqual([{ type: 'string' }]);
    await run('drop table moving');
    await run('create table moving (id int, filler text, v int)');
    expect((await post('moving', body)).status).toBe(201);
    expect(await run('select sum(v) from moving')).toEqual([{ sum: 12_300 }]);
    await run(
      'create function count_up() returns trigger language plpgsql as $$begin new.v := 1; return new; end$$',
    );
    await run('create trigger count_up before insert on moving for each row execute function count_up()');
    expect((await post('moving', body)).status).toBe(201);
    expect(await run('select sum(v) from moving')).toEqual([{ sum: 12_400 }]);
  });

  it('that waits for a change of the table stores what the table then has', async () => {
    await run('create table waited (id int, filler text, v text)');
    const body = many(() => ({ v: '123' }));
    expect((await post('waited', body)).status).toBe(201);
    const changing = await openTableSession(rowhouse.service.deps.server, mine.id);
    try {
      await changing.run('begin');
      await changing.run('alter table waited alter v type jsonb using null');
      const waiting = post('waited', body);
      await until('it waits', async () => {
        const rows = await changing.run('select count(*) from pg_locks where not granted');
        return Number(rows[0]?.[0]) === 1;
      });
      await changing.run('commit');
      expect((await waiting).body).toEqual({ ok: true, row_count: 100 });
    } finally {
      await changing.end();
    }
    expect(await run('select jsonb_typeof(v) as type, count(*) from waited group by 1 order by 1')).toEqual([
      { type: 'string', count: 100 },
      { type: null, count: 100 },
    ]);
  });

  /** Runs `act` while a copy waits for a lock on the table. */
  const whileWaiting = async (table: string, act: () => Promise<void>) => {
    const locking = await openTableSession(rowhouse.service.deps.server, mine.id);
    const waiting = async () => {
      const rows = await locking.run('select count(*) from pg_locks where not granted');
      return Number(rows[0]?.[0]);
    };
    try {
      await locking.run('begin');
      await locking.run(`lock table ${table} in share mode`);
      await act();
      await until('it no longer waits', async () => (await waiting()) === 0);
      await locking.run('commit');
    } finally {
      await locking.end();
    }
  };
  const untilItWaits = () =>
    asAdmin((admin) =>
      until('it waits', async () => {
        const rows = await admin.query<{ pid: number }>(sql`
          select pid from pg_stat_activity where datname = ${`p_${mine.id}`} and wait_event_type = 'Lock'`);
        return rows[0]?.pid;
      }),
    );

  it('whose caller hangs up while it waits stores nothing, and its session serves others', async () => {
    await run('create table left_alone (id int, filler text)');
    const body = many(() => ({}), 3_000);
    expect((await post('left_alone', body)).status).toBe(201);
    await whileWaiting('left_alone', async () => {
      const caller = new AbortController();
      const url = `http://127.0.0.1:${port}/api/dbaas/v2/projects/${mine.slug}/tables/left_alone?returning=minimal`;
      const headers = { 'x-api-key': mine.key, 'content-type': 'application/json' };
      const left = fetch(url, { method: 'POST', headers, body, signal: caller.signal });
      await untilItWaits();
      caller.abort();
      await expect(left).rejects.toThrow();
    });
    expect(await run('select count(*) from left_alone')).toEqual([{ count: 3_000 }]);
    expect((await post('left_alone', body)).body).toEqual({ ok: true, row_count: 3_000 });
  });

  it('whose backend is terminated while it waits is known to have stored nothing', async () => {
    await run('create table cut_off (id int, filler text)');
    const body = many(() => ({}), 3_000);
    expect((await post('cut_off', body)).status).toBe(201);
    await whileWaiting('cut_off', async () => {
      const cut = post('cut_off', body);
      const pid = await untilItWaits();
      await asAdmin((admin) => admin.query(sql`select pg_terminate_backend(${pid})`));
      const { status, body: answer } = await cut;
      expect([status, answer.error.code]).toEqual([503, 'unavailable']);
    });
    expect(await run('select count(*) from cut_off')).toEqual([{ count: 3_000 }]);
  });

  it('of megabytes that fails at its first or last row leaves its session usable', async () => {
    await run('create table failing (id int, filler text, v int)');
    const good = () => ({ v: 1 });
    for (const wrong of [0, 19_999]) {
      const body = many((n) => ({ v: n === wrong ? 'wrong' : 1 }), 20_000);
      const { status, body: answer } = await post('failing', body);
      expect([status, answer.error.sql?.state]).toEqual([422, '22P02']);
      expect((await post('failing', many(good))).body).toEqual({ ok: true, row_count: 100 });
    }
    expect(await wasCopied('failing')).toBe(true);
    expect(await run('select count(*) from failing')).toEqual([{ count: 200 }]);
  });

  it('into a table whose schema was dropped is told so, and then finds another of that name', async () => {
    await run('create schema gone');
    await run('create table gone.t (id int, filler text)');
    const body = many(() => ({}));
    expect((await post('gone.t', body)).status).toBe(201);
    await run('drop schema gone cascade');
    expect((await post('gone.t', body)).status).toBe(404);
    await run('create table public."gone.t" (id int, filler text)');
    expect((await post('gone.t', body)).status).toBe(201);
    expect(await run('select count(*) from public."gone.t"')).toEqual([{ count: 100 }]);
  });

  it('needs a key that may write to the table', async () => {
    await run('create table closed (id int, filler text)');
    const issue = async (body: object) =>
      (await rowhouse.call('POST', `/projects/${mine.slug}/keys`, { key: mine.key, body })).body.api_key;
    const reading = await issue({ name: 'reading', scopes: ['tables:read'] });
    const other = await issue({ name: 'other', scopes: ['tables:read', 'tables:write'], tables: ['strict'] });
    const [scope, table] = [
      await post(
        'closed',
        many(() => ({})),
        { key: reading },
      ),
      await post(
        'closed',
        many(() => ({})),
        { key: other },
      ),
    ];
    expect([scope.status, table.status]).toEqual([403, 404]);
    expect(await run('select count(*) from closed')).toEqual([{ count: 0 }]);
  });

  it('is repeated with the same idempotency key only once', async () => {
    await run('create table once (id int, filler text)');
    const headers = { 'idempotency-key': 'arrays-1' };
    for (let n = 0; n < 2; n++)
      expect(
        (
          await post(
            'once',
            many(() => ({})),
            { headers },
          )
        ).body,
      ).toEqual({ ok: true, row_count: 100 });
    expect(
      (
        await post(
          'once',
          many(() => ({ filler: 'x' }), 200),
          { headers },
        )
      ).status,
    ).toBe(409);
    expect(await run('select count(*) from once')).toEqual([{ count: 100 }]);
  });

  it('into a full project gives 507, adds nothing, and its neighbour notices nothing', async () => {
    await rowhouse.call('PATCH', `/projects/${mine.slug}`, {
      key: rowhouse.accountKey,
      body: { limit_mb: 4 },
    });
    await run('create table filling (id int, filler text, t text)');
    await run('create table calm (id int, filler text)', neighbour);
    const body = many(() => ({ t: randomBytes(2_000).toString('hex') }), 300);
    let refused: Answer | null = null;
    let rows = 0;
    for (let n = 0; n < 12 && !refused; n++) {
      const answer = await post('filling', body);
      if (answer.status === 201) rows += 300;
      else refused = answer;
    }
    expect([refused?.status, refused?.body.error.code]).toEqual([507, 'project_full']);
    expect(await run('select count(*) from filling')).toEqual([{ count: rows }]);
    const beside = await post(
      'calm',
      many(() => ({})),
      { key: neighbour.key, project: neighbour },
    );
    expect(beside.body).toEqual({ ok: true, row_count: 100 });
  });
});
