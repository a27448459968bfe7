import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import type { ProjectLogin } from '../../src/servers/databases/login.ts';
import { type Answer, address, asAdmin, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 3, connections: { budget: 20, share: 6 } });
type Project = { slug: string; id: string; key: string };
let mine: Project;
let other: Project;

const run = (query: string, project = mine) =>
  rowhouse.call('POST', `/projects/${project.slug}/query`, { key: project.key, body: { query } });
const get = (table: string, query = '', project = mine) =>
  rowhouse.call(
    'GET',
    `/projects/${project.slug}/tables/${encodeURIComponent(table)}${query && `?${query}`}`,
    {
      key: project.key,
    },
  );

beforeAll(async () => {
  mine = await rowhouse.project('Shop');
  other = await rowhouse.project('Neighbour');
  for (const statement of [
    'create table authors (id int primary key, name text not null)',
    'create table books (id bigint generated always as identity primary key, title text not null, price numeric(10,2), author_id int references authors, tags jsonb, sold_at timestamptz)',
    "insert into authors values (1, 'Ann'), (2, 'Ben')",
    "insert into books (title, price, author_id, tags, sold_at) select 'Book ' || n, n / 4.0, 1 + n % 2, jsonb_build_object('n', n), timestamptz '2026-01-01' + n * interval '1.000001 second' from generate_series(1, 120) as n",
    'create view cheap as select id, title from books where price < 5',
    'create table "odd ""name"". ü" ("select" int primary key, "a.b" text)',
    'insert into "odd ""name"". ü" values (1, $$x$$)',
  ])
    expect((await run(statement)).body.error).toBeUndefined();
});

describe('a page of a table', () => {
  it('has all documented fields', async () => {
    const { status, body } = await get('books', 'limit=2');
    expect(status).toBe(200);
    expect(body).toEqual({
      ok: true,
      columns: ['id', 'title', 'price', 'author_id', 'tags', 'sold_at'],
      types: ['int8', 'text', 'numeric', 'int4', 'jsonb', 'timestamptz'],
      rows: [
        {
          id: 1,
          title: 'Book 1',
          price: 0.25,
          author_id: 2,
          tags: { n: 1 },
          sold_at: '2026-01-01T00:00:01.000001Z',
        },
        expect.objectContaining({ id: 2 }),
      ],
      row_count: 2,
      page: 1,
      limit: 2,
      has_more: true,
      next_cursor: expect.any(String),
    });
  });

  it('has fifty rows by default, and pages neither overlap nor skip', async () => {
    const ids: number[] = [];
    for (let page = 1; page <= 3; page++) {
      const { body } = await get('books', page === 1 ? '' : `page=${page}`);
      expect([body.page, body.limit, body.has_more]).toEqual([page, 50, page < 3]);
      ids.push(...body.rows.map(({ id }: { id: number }) => id));
    }
    expect(ids).toEqual(Array.from({ length: 120 }, (_, n) => n + 1));
    expect((await get('books', 'page=4')).body).toMatchObject({
      rows: [],
      has_more: false,
      next_cursor: null,
    });
  });

  it('continues by a cursor', async () => {
    const ids: number[] = [];
    let cursor: string | null = '';
    while (cursor !== null) {
      const { body }: Answer = await get(
        'books',
        `limit=17&order=sold_at.desc${cursor && `&cursor=${cursor}`}`,
      );
      ids.push(...body.rows.map(({ id }: { id: number }) => id));
      cursor = body.next_cursor;
    }
    expect(ids).toEqual(Array.from({ length: 120 }, (_, n) => 120 - n));
  });

  it('shows chosen columns, filtered and in order, with rows of other tables', async () => {
    const { body } = await get(
      'books',
      'select=id,price,authors(name)&price=gte.29.5&order=price.desc&limit=10',
    );
    expect(body.rows).toEqual([
      { id: 120, price: 30, authors: { name: 'Ann' } },
      { id: 119, price: 29.75, authors: { name: 'Ben' } },
      { id: 118, price: 29.5, authors: { name: 'Ann' } },
    ]);
    expect((await get('authors', 'select=name,books(id)&books.limit=2&books.order=id')).body.rows).toEqual([
      { name: 'Ann', books: [{ id: 2 }, { id: 4 }] },
      { name: 'Ben', books: [{ id: 1 }, { id: 3 }] },
    ]);
    expect((await get('books', 'tags->>n=eq.7&select=id')).body.rows).toEqual([{ id: 7 }]);
    expect((await get('books', 'or=(id.eq.3,and(id.gt.118,id.lt.120))&select=id')).body.rows).toEqual([
      { id: 3 },
      { id: 119 },
    ]);
  });

  it('has the rows of its own values after a request that differs only in them', async () => {
    const ids = async (query: string) =>
      (await get('books', `select=id&${query}`)).body.rows.map((row: { id: number }) => row.id);
    expect(await ids('id=gte.7&id=lt.9')).toEqual([7, 8]);
    expect(await ids('id=gte.3&id=lt.5')).toEqual([3, 4]);
    expect(await ids('title=eq.Book%203')).toEqual([3]);
    expect(await ids('title=eq.Book+4')).toEqual([4]);
    expect(await ids('title=eq.')).toEqual([]);
    // One plan for each shape.
    const { plans } = rowhouse.service.deps.tables.cache.of({ id: mine.id } as ProjectLogin);
    const keys = [...plans.keys()].filter((key) => key.startsWith('select=id&'));
    expect(keys.sort()).toEqual(['select=id&id=gte.\n&id=lt.\n books', 'select=id&title=eq.\n books']);
    // What has further parameters has a plan for each value.
    expect(await ids('id=lte.10&limit=3&page=2')).toEqual([4, 5, 6]);
    expect(await ids('id=lte.5&limit=3&page=2')).toEqual([4, 5]);
    const authors = async (query: string) =>
      (await get('authors', `select=id,books(id)&books.id=lt.5&${query}`)).body.rows;
    expect(await authors('id=eq.1')).toEqual([{ id: 1, books: [{ id: 2 }, { id: 4 }] }]);
    expect(await authors('id=eq.2')).toEqual([{ id: 2, books: [{ id: 1 }, { id: 3 }] }]);
    const { next_cursor } = (await get('books', 'id=gt.100&limit=1')).body;
    expect(await ids(`id=gt.100&limit=1&cursor=${next_cursor}`)).toEqual([102]);
    expect(await ids(`id=gt.110&limit=1&cursor=${next_cursor}`)).toEqual([111]);
    const { body } = await get('books', 'select=id&id=gte.seven&id=lt.9');
    expect([body.error.code, JSON.stringify(body)]).toEqual([
      'constraint_violation',
      expect.stringContaining('seven'),
    ]);
    expect(await ids('id=gte.8&id=lt.9')).toEqual([8]);
  });

  it('has a count, labelled as exact or estimated', async () => {
    expect((await get('books', 'limit=1&count=exact&id=lt.6')).body.count.rows).toBe(5);
    expect((await get('books', 'limit=1&count=exact')).body.count).toEqual({ rows: 120, kind: 'exact' });
    expect((await get('books', 'limit=1&count=exact&id=lt.11')).body.count).toEqual({
      rows: 10,
      kind: 'exact',
    });
    const { count } = (await get('books', 'limit=1&count=estimated')).body;
    expect(count.kind).toBe('estimated');
    expect(count.rows).toBeGreaterThan(0);
  });

  it('is not delayed by a slow count', async () => {
    await run(
      "create view slow as select n from generate_series(1, 100000) as n where pg_sleep(0.01)::text = ''",
    );
    const began = performance.now();
    const { body } = await get('slow', 'limit=1&select=n&count=exact');
    expect([body.rows, body.count?.kind]).toEqual([[{ n: 1 }], 'estimated']);
    expect(performance.now() - began).toBeLessThan(10_000);
  });

  it('leaves nothing in the session of what a view does during a count', async () => {
    await run(
      "create function leave() returns boolean language plpgsql as $$begin perform set_config('work_mem', '7MB', false); return true; end$$",
    );
    await run('create view leaving as select id from authors where leave()');
    for (let n = 0; n < 3; n++)
      expect((await get('leaving', 'count=exact')).body.count).toEqual({ rows: 2, kind: 'exact' });
    const asked = Array.from({ length: 6 }, () => run("select current_setting('work_mem') as now"));
    const seen = (await Promise.all(asked)).map(({ body }) => body.rows[0].now);
    expect(new Set(seen)).toEqual(new Set(['4MB']));
  });

  it('works for views, unusual names and other schemas', async () => {
    expect((await get('cheap', 'limit=3')).body).toMatchObject({
      row_count: 3,
      has_more: true,
      next_cursor: null,
    });
    expect((await get('odd "name". ü')).body.rows).toEqual([{ select: 1, 'a.b': 'x' }]);
    await run('create schema shop');
    await run('create table shop.things (id int primary key)');
    await run('insert into shop.things values (5)');
    expect((await get('shop.things')).body.rows).toEqual([{ id: 5 }]);
  });

  it('is as fast for a table with a long default', async () => {
    await run(`create table wordy (a text default '${'a'.repeat(200_000)}')`);
    const startedAt = performance.now();
    expect((await get('wordy')).status).toBe(200);
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });

  it('has bigints and numerics as strings on request', async () => {
    expect((await get('books', 'limit=1&select=id,price&numbers=string')).body.rows).toEqual([
      { id: '1', price: '0.25' },
    ]);
  });
});

describe('errors of a page', () => {
  it.each([
    ['boks', '', 404, 'table_not_found', 'books'],
    ['../books', '', 404, 'table_not_found', ''],
    ['books', 'limit=0', 400, 'invalid_request', 'limit'],
    ['books', 'limit=10001', 400, 'invalid_request', 'limit'],
    ['books', 'limit=ten', 400, 'invalid_request', 'limit'],
    ['books', 'page=0', 400, 'invalid_request', 'page'],
    ['books', 'page=1&cursor=x', 400, 'invalid_request', 'cursor'],
    ['books', 'cursor=nonsense', 400, 'invalid_request', 'cursor'],
    ['books', 'titel=eq.x', 400, 'invalid_request', 'title'],
    ['books', 'select=id,titel', 400, 'invalid_request', 'title'],
    ['books', 'order=titel', 400, 'invalid_request', 'title'],
    ['books', 'id=about.5', 400, 'invalid_request', 'id'],
    ['books', 'id=eq.abc', 422, 'constraint_violation', String.raw`The filter \"id\": invalid`],
    ['books', 'or=(id.eq.abc,title.eq.x)', 422, 'constraint_violation', String.raw`\"id\" in \"or\"`],
    ['books', 'title=eq.x&id=in.(1,abc)', 422, 'constraint_violation', String.raw`The filter \"id\"`],
    ['books', 'id=like.5*', 400, 'sql_error', String.raw`\"like\" does not support bigint`],
    ['books', 'id=eq.abc&price=eq.abc', 422, 'constraint_violation', 'abc'],
    ['x'.repeat(64), '', 404, 'table_not_found', '63 bytes'],
    ['books', `${'x'.repeat(64)}=eq.1`, 400, 'invalid_request', '63 bytes'],
  ])('are clear for %s?%s', async (table, query, status, code, word) => {
    const { status: given, body } = await get(table, query);
    expect([given, body.error.code]).toEqual([status, code]);
    expect(JSON.stringify(body)).toContain(word);
    expect(body.error.sql ?? {}, 'a place in our own SQL').not.toHaveProperty('position');
  });

  it('have no position in SQL that the caller did not write', async () => {
    const { body } = await get('books', 'price=like.5');
    expect([body.error.code, body.error.sql.state]).toEqual(['sql_error', '42883']);
    expect(body.error.sql).not.toHaveProperty('position');
  });

  it('treat a question mark in a name as part of it', async () => {
    expect((await get('authors', 'name=eq.a?')).status).toBe(200);
    expect((await get('authors?name=eq.a')).status).toBe(404);
  });

  it('do not treat a name as a path', async () => {
    for (const name of ['..%2f..%2fprojects', '%2e%2e', 'books%00']) {
      const { status } = await rowhouse.call('GET', `/projects/${mine.slug}/tables/${name}`, {
        key: mine.key,
      });
      expect([400, 404]).toContain(status);
    }
  });
});

describe('table requests are never stale', () => {
  it('a table made, altered or dropped one request earlier is seen as it is', async () => {
    for (let n = 0; n < 4; n++) {
      expect((await get('fresh')).status).toBe(404);
      await run('create table fresh (id int primary key)');
      await run('insert into fresh values (1), (2)');
      for (let times = 0; times < 8; times++) expect((await get('fresh')).body.columns).toEqual(['id']);
      await run("alter table fresh add column word text default 'w'");
      expect((await get('fresh')).body.rows[0]).toEqual({ id: 1, word: 'w' });
      await run('alter table fresh drop constraint fresh_pkey, add primary key (word, id)');
      expect((await get('fresh', 'order=word.desc,id.desc')).body.rows).toHaveLength(2);
      await run('alter table fresh rename column word to term');
      expect((await get('fresh', 'term=eq.w')).body.rows).toHaveLength(2);
      expect((await get('fresh', 'word=eq.w')).status).toBe(400);
      await run('drop table fresh');
    }
  });

  it('a change over a direct connection or another process is seen at once', async () => {
    const neighbour = await rowhouse.project('Direct');
    await run('create table seen (id int primary key)', neighbour);
    for (let n = 0; n < 8; n++) expect((await get('seen', '', neighbour)).body.columns).toEqual(['id']);
    await asAdmin((admin) => admin.change(sql`alter table seen add column late int`), {
      ...address(),
      database: `p_${neighbour.id}`,
    });
    expect((await get('seen', '', neighbour)).body.columns).toEqual(['id', 'late']);
  });

  it('a new foreign key of another table is seen at once', async () => {
    for (const statement of [
      'create table hosts (id int primary key)',
      'create table guests (host_id int unique references hosts, n int)',
      'create table rooms (id int primary key)',
      'create table keys (host_id int references hosts, room_id int references rooms)',
      'insert into hosts values (1)',
      'insert into guests values (1, 1)',
    ])
      expect((await run(statement)).body.error).toBeUndefined();
    const embedded = async (select: string) =>
      (await get('hosts', `select=${select}`)).body.rows?.[0]?.[select.replace(/\(.*/, '')];
    await get('hosts');
    await run('alter table guests rename column host_id to host');
    expect(await embedded('guests(n)')).toEqual({ n: 1 });
    await run('alter table hosts add column late int');
    await get('hosts');
    await run('alter table guests drop constraint guests_host_id_key');
    await run('insert into guests values (1, 2)');
    expect(await embedded('guests(n)')).toEqual([{ n: 1 }, { n: 2 }]);
    await run('alter table keys add primary key (host_id, room_id)');
    expect(await embedded('rooms(id)')).toEqual([]);
    await run('alter table rooms rename to chambers');
    expect(await embedded('chambers(id)')).toEqual([]);
  });

  it('changed attributes of a type are seen at once', async () => {
    await run('create type spot as (x int, at timestamptz)');
    await run('create table places (id int primary key, spot spot)');
    await run('create table signs (id int primary key, place_id int references places)');
    await run("insert into places values (1, row (1, '2026-01-01'))");
    await run('insert into signs values (1, 1)');
    const sign = async () => (await get('signs', 'select=places(spot)')).body.rows?.[0];
    for (let n = 0; n < 7; n++)
      expect(await sign()).toEqual({ places: { spot: { x: 1, at: '2026-01-01T00:00:00Z' } } });
    await run('alter type spot add attribute y int');
    expect(await sign()).toEqual({ places: { spot: { x: 1, at: '2026-01-01T00:00:00Z', y: null } } });
    const path = `/projects/${mine.slug}/tables/places`;
    const insert = (id: number, spot: object) =>
      rowhouse.call('POST', path, { key: mine.key, body: [{ id, spot }] });
    expect((await insert(2, { y: 2 })).status).toBe(201);
    await run('alter type spot add attribute z int');
    expect((await insert(3, { z: 3 })).body.rows).toMatchObject([{ spot: { z: 3 } }]);
  });

  it('a change that is rolled back has no effect', { tags: 'long' }, async () => {
    await run('create table restless (id int primary key)');
    let isDone = false;
    const changing = (async () => {
      while (!isDone) {
        await run('alter table restless add column y int');
        await run('alter table restless drop column y');
      }
    })();
    const statuses = new Set<string>();
    const path = `/projects/${mine.slug}/tables/restless`;
    for (let id = 0; id < 40; id++) {
      const read = await get('restless');
      const written = await rowhouse.call('POST', path, { key: mine.key, body: { id } });
      for (const { status, body } of [read, written]) statuses.add(`${status} ${body.error?.code ?? ''}`);
    }
    isDone = true;
    await changing;
    // Who changes it all the time can get in between all the time.
    for (const status of statuses) expect(['200 ', '201 ', '409 conflict']).toContain(status);
  });
});

describe('the endpoints that describe tables', () => {
  it('list tables', async () => {
    const { body } = await rowhouse.call('GET', `/projects/${mine.slug}/tables`, { key: mine.key });
    expect(body.tables).toContainEqual(
      expect.objectContaining({ schema: 'public', name: 'books', kind: 'table' }),
    );
    expect(body.tables).toContainEqual(expect.objectContaining({ name: 'cheap', kind: 'view' }));
  });

  it('list thousands of tables', async () => {
    const many = await rowhouse.project('Many');
    for (let part = 0; part < 4; part++) {
      const body = `begin for n in 1..750 loop execute format('create table many_${part}_%s (id int)', n); end loop; end`;
      expect((await run(`do $$ ${body} $$`, many)).body.error).toBeUndefined();
    }
    const startedAt = performance.now();
    const { body } = await rowhouse.call('GET', `/projects/${many.slug}/tables`, { key: many.key });
    expect(body.tables).toHaveLength(3_000);
    expect(performance.now() - startedAt).toBeLessThan(2_500);
  });

  it('describe tables', async () => {
    const { body } = await rowhouse.call('GET', `/projects/${mine.slug}/schema`, { key: mine.key });
    const books = body.tables.find(({ name }: { name: string }) => name === 'books');
    expect(books.primary_key).toEqual(['id']);
    expect(books.columns[0]).toMatchObject({
      name: 'id',
      type: 'bigint',
      identity: 'always',
      not_null: true,
    });
    expect(books.references[0]).toMatchObject({
      columns: ['author_id'],
      target: { schema: 'public', name: 'authors' },
    });
  });
});

describe('keys at the table endpoints', () => {
  it('see no more than their scopes and tables', async () => {
    const issue = async (body: object) => {
      const answer = await rowhouse.call('POST', `/projects/${mine.slug}/keys`, { body });
      return answer.body.api_key as string;
    };
    const some = await issue({ name: 'some', scopes: ['tables:read'], tables: ['authors'] });
    const none = await issue({ name: 'none', scopes: ['query'] });
    const as = (key: string, table: string) =>
      rowhouse.call('GET', `/projects/${mine.slug}/tables/${table}`, { key });
    expect((await as(some, 'authors')).status).toBe(200);
    expect((await as(some, 'books')).status).toBe(404);
    expect((await as(some, 'authors?select=name,books(title)')).status).toBe(400);
    expect((await as(none, 'authors')).status).toBe(403);
    expect((await as(other.key, 'authors')).status).toBe(404);
    const listed = await rowhouse.call('GET', `/projects/${mine.slug}/tables`, { key: some });
    expect(listed.body.tables.map(({ name }: { name: string }) => name)).toEqual(['authors']);
  });

  it('for some tables learn nothing of others', async () => {
    await run("create type secret_mood as enum ('hidden')");
    await run('create table ledger (id int primary key, author_id int references authors, balance int)');
    await run('create table diary (id int references ledger, mood secret_mood)');
    await run('create function secret_work() returns int language sql as $$select 1$$');
    const { body } = await rowhouse.call('POST', `/projects/${mine.slug}/keys`, {
      body: { name: 'some', scopes: ['tables:read'], tables: ['authors'] },
    });
    const as = async (rest: string) =>
      await rowhouse.call('GET', `/projects/${mine.slug}/${rest}`, { key: body.api_key });
    for (const [rest, status] of [
      ['tables/ledger?balanc=eq.1', 404],
      ['tables/ledger?select=balance,diary(moo)', 404],
      ['tables/authors?select=name,ledger(balanc)', 400],
      ['tables/authors?select=name,ledger()', 400],
      ['tables/authors?select=name,ledge(id)', 400],
      ['tables/authors?select=name,nothing(id)', 400],
      ['tables/ledge', 404],
      ['schema', 200],
    ] as const) {
      const answer = await as(rest);
      expect([rest, answer.status]).toEqual([rest, status]);
      const told = JSON.stringify(answer.body);
      for (const secret of ['balance', 'diary', 'mood', 'secret']) expect(told).not.toContain(secret);
      if (!rest.includes('ledger')) expect(told).not.toContain('ledger');
    }
    // What another key has asked before changes nothing.
    expect((await get('authors', 'select=name,ledger()')).status).toBe(200);
    expect((await as('tables/authors?select=name,ledger()')).status).toBe(400);
  });

  it('return their connections', async () => {
    await until('all idle', async () => {
      const { open, idle } = rowhouse.service.deps.query.sessions.counts();
      return open === idle;
    });
  });
});
