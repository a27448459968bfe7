import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../src/postgres/sql.ts';
import { type Answer, address, asAdmin, until, useHouse } from './helpers.ts';

const house = useHouse({ spares: 3, connections: { budget: 20, share: 6 } });
type Project = { slug: string; id: string; key: string };
let mine: Project;
let other: Project;

const run = (query: string, project = mine) =>
  house.call('POST', `/projects/${project.slug}/query`, { key: project.key, body: { query } });
const get = (table: string, query = '', project = mine) =>
  house.call('GET', `/projects/${project.slug}/tables/${encodeURIComponent(table)}${query && `?${query}`}`, {
    key: project.key,
  });

beforeAll(async () => {
  mine = await house.project('Shop');
  other = await house.project('Neighbour');
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

describe('a page', () => {
  it('has all that the contract says', async () => {
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

  it('is fifty rows unless asked otherwise, and pages neither overlap nor skip', async () => {
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

  it('goes on by a cursor', async () => {
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

  it('counts, labelled', async () => {
    expect((await get('books', 'limit=1&count=exact')).body.count).toEqual({ rows: 120, kind: 'exact' });
    expect((await get('books', 'limit=1&count=exact&id=lt.11')).body.count).toEqual({
      rows: 10,
      kind: 'exact',
    });
    const { count } = (await get('books', 'limit=1&count=estimated')).body;
    expect(count.kind).toBe('estimated');
    expect(count.rows).toBeGreaterThan(0);
  });

  it('a count that takes long does not hold up the rows', async () => {
    await run(
      "create view slow as select n from generate_series(1, 100000) as n where pg_sleep(0.01)::text = ''",
    );
    const began = performance.now();
    const { body } = await get('slow', 'limit=1&select=n&count=exact');
    expect([body.rows, body.count?.kind]).toEqual([[{ n: 1 }], 'estimated']);
    expect(performance.now() - began).toBeLessThan(10_000);
  });

  it('of a view, of odd names, of other schemas', async () => {
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

  it('bigints and numerics as strings, if asked', async () => {
    expect((await get('books', 'limit=1&select=id,price&numbers=string')).body.rows).toEqual([
      { id: '1', price: '0.25' },
    ]);
  });
});

describe('what is wrong is told', () => {
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
    ['books', 'id=eq.abc', 422, 'constraint_violation', 'abc'],
    ['x'.repeat(64), '', 404, 'table_not_found', ''],
  ])('%s?%s', async (table, query, status, code, word) => {
    const { status: given, body } = await get(table, query);
    expect([given, body.error.code]).toEqual([status, code]);
    expect(JSON.stringify(body)).toContain(word);
  });

  it('a name that is a path is no path', async () => {
    for (const name of ['..%2f..%2fprojects', '%2e%2e', 'books%00']) {
      const { status } = await house.call('GET', `/projects/${mine.slug}/tables/${name}`, { key: mine.key });
      expect([400, 404]).toContain(status);
    }
  });
});

describe('never stale', () => {
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

  it('nor over a direct connection, nor in another process', async () => {
    const neighbour = await house.project('Direct');
    await run('create table seen (id int primary key)', neighbour);
    for (let n = 0; n < 8; n++) expect((await get('seen', '', neighbour)).body.columns).toEqual(['id']);
    await asAdmin((admin) => admin.change(sql`alter table seen add column late int`), {
      ...address(),
      database: `p_${neighbour.id}`,
    });
    expect((await get('seen', '', neighbour)).body.columns).toEqual(['id', 'late']);
  });
});

describe('what there is', () => {
  it('lists tables', async () => {
    const { body } = await house.call('GET', `/projects/${mine.slug}/tables`, { key: mine.key });
    expect(body.tables).toContainEqual(
      expect.objectContaining({ schema: 'public', name: 'books', kind: 'table' }),
    );
    expect(body.tables).toContainEqual(expect.objectContaining({ name: 'cheap', kind: 'view' }));
  });

  it('describes them', async () => {
    const { body } = await house.call('GET', `/projects/${mine.slug}/schema`, { key: mine.key });
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

describe('keys', () => {
  it('with scopes and lists of tables see no more than those', async () => {
    const issue = async (body: object) => {
      const answer = await house.call('POST', `/projects/${mine.slug}/keys`, { body });
      return answer.body.api_key as string;
    };
    const some = await issue({ name: 'some', scopes: ['tables:read'], tables: ['authors'] });
    const none = await issue({ name: 'none', scopes: ['query'] });
    const as = (key: string, table: string) =>
      house.call('GET', `/projects/${mine.slug}/tables/${table}`, { key });
    expect((await as(some, 'authors')).status).toBe(200);
    expect((await as(some, 'books')).status).toBe(403);
    expect((await as(some, 'authors?select=name,books(title)')).status).toBe(403);
    expect((await as(none, 'authors')).status).toBe(403);
    expect((await as(other.key, 'authors')).status).toBe(404);
    const listed = await house.call('GET', `/projects/${mine.slug}/tables`, { key: some });
    expect(listed.body.tables.map(({ name }: { name: string }) => name)).toEqual(['authors']);
  });

  it('connections come back', async () => {
    await until('all idle', async () => {
      const { open, idle } = house.service.deps.query.sessions.counts();
      return open === idle;
    });
  });
});
