// What may only read writes nothing, whatever code of the project's own it runs on its way.
import { beforeAll, describe, expect, it } from 'vitest';
import { type LoginAs, newUser, seatOf, type TestProject, type User } from '../support/end-users.ts';
import { type Answer, api, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();
let shop: TestProject;
let neighbour: TestProject;
let loginAs: LoginAs;
let ann: User;
let reader: string;
let asker: string;

const issue = async (scopes: string[]) => {
  const path = `/projects/${shop.slug}/keys`;
  return (await rowhouse.call('POST', path, { body: { name: scopes[0], scopes } })).body.api_key as string;
};
const rows = (path: string, key = reader) =>
  rowhouse.call('GET', `/projects/${shop.slug}/tables/${path}`, { key });
const stateOf = ({ body }: Answer) => body.error?.sql?.state;

/** How often something of the project's was written. */
const written = async () => {
  const { body } = await loginAs.query(
    'select (select count(*) from logs) + (select count(*) from pg_largeobject_metadata) as n, (select last_value from counter) as c',
  );
  return body.rows[0];
};

beforeAll(async () => {
  shop = await rowhouse.project('Shop');
  neighbour = await rowhouse.project('Neighbour');
  loginAs = await seatOf(rowhouse, shop);
  ann = await newUser(rowhouse, shop);
  [reader, asker] = [await issue(['tables:read']), await issue(['query:read'])];
  for (const text of [
    'create table teas (id int primary key, name text)',
    "insert into teas values (1, 'Assam'), (2, 'Oolong'), (3, 'Sencha')",
    'create table logs (at timestamptz default now(), line text)',
    'create sequence counter',
    "create function log_it() returns text language plpgsql volatile security definer as $$ begin insert into public.logs (line) values ('read'); return 'x'; end $$",
    'create view logged as select id, name, log_it() as line from teas',
  ])
    await loginAs.query(text);
});

describe('a page of a table or view', () => {
  it.each([
    ...[
      'logged',
      'logged?page=2&limit=1',
      'logged?order=line',
      'logged?line=eq.x',
      'logged?select=line',
      'logged?or=(line.eq.x,id.eq.1)',
    ],
    ...[
      'logged?count=exact&line=eq.x',
      'logged?count=estimated&line=eq.x',
      'logged?limit=1&order=line.desc,id',
      'logged?numbers=string',
    ],
  ])('of a view whose function writes is refused: %s', async (path) => {
    const before = await written();
    for (const key of [reader, shop.key, rowhouse.accountKey]) {
      const answer = await rows(path, key);
      expect([answer.status, stateOf(answer)], JSON.stringify(answer.body)).toEqual([400, '25006']);
      expect(answer.body.error.hint).toContain('POST …/query');
    }
    const url = `${api}/projects/${shop.slug}/tables/${path}`;
    const head = await rowhouse.app.inject({ method: 'HEAD', url, headers: { 'x-api-key': reader } });
    expect(head.statusCode).toBe(400);
    expect(await written()).toEqual(before);
  });

  it('is not counted by a function that writes, though the rows themselves are harmless', async () => {
    await loginAs.query(
      "create function log_all() returns boolean language sql volatile security definer as $$ insert into public.logs (line) values ('count') returning true $$",
    );
    await loginAs.query('create view counted as select id from teas where log_all()');
    const before = await written();
    for (const count of ['exact', 'estimated'])
      expect(stateOf(await rows(`counted?count=${count}`))).toBe('25006');
    expect(await written()).toEqual(before);
  });

  it('is not planned by a function that writes and is said to be immutable', async () => {
    await loginAs.query(
      'create function sly() returns int language plpgsql immutable security definer as $$ begin perform public.log_it(); return 1; end $$',
    );
    await loginAs.query('create view planned as select id from teas where id = sly()');
    const before = await written();
    for (const path of ['planned', 'planned?count=exact', 'planned?count=estimated'])
      expect(stateOf(await rows(path))).toBe('25006');
    expect(await written()).toEqual(before);
  });

  it.each([
    ['nextval', "select nextval('counter')"],
    ['setval', "select setval('counter', 1000)"],
    ['a large object', "select lo_from_bytea(0, 'x')"],
    ['a new table', 'create table made (a int)'],
    ['a temporary table', 'create temp table made (a int)'],
    ['truncate', 'truncate logs'],
    ['an update', "update teas set name = 'Ceylon'"],
    ['a lock of rows', 'select 1 from teas for update'],
    ['a grant', 'grant select on teas to anon'],
    ['a comment', "comment on table teas is 'x'"],
    ['a new function', 'create function made() returns int language sql return 1'],
    ['a transaction made writable', "set transaction read write; insert into logs (line) values ('x')"],
    ['the same by a setting', "set local transaction_read_only = off; insert into logs (line) values ('x')"],
    [
      'the same by a function',
      "perform set_config('transaction_read_only', 'off', true); insert into logs (line) values ('x')",
    ],
    [
      'the default made writable',
      "set default_transaction_read_only = off; insert into logs (line) values ('x')",
    ],
    ['a commit', "commit; insert into logs (line) values ('x')"],
    [
      'a block of its own',
      "begin set transaction read write; exception when others then null; end; insert into logs (line) values ('x')",
    ],
    ['advisory locks', 'perform pg_advisory_lock(1)'],
    ['a message in the WAL', "perform pg_logical_emit_message(true, 'a', 'b')"],
  ])('lets the function of a view do nothing of this: %s', async (name, text) => {
    const body = text.replace(/^select/, 'perform');
    await loginAs.query(
      `create or replace function trick() returns int language plpgsql volatile security definer as $$ begin ${body}; return 1; end $$`,
    );
    await loginAs.query('create or replace view tricky as select id, trick() as one from teas');
    const before = await written();
    for (const path of ['tricky', 'tricky?count=exact&one=eq.1', 'tricky?select=one']) {
      const answer = await rows(path);
      expect(answer.body.ok, `${name}: ${JSON.stringify(answer.body)}`).toBe(false);
      expect(answer.status).toBeLessThan(500);
    }
    expect(await written()).toEqual(before);
    const left = await loginAs.query("select count(*) as n from pg_class where relname = 'made'");
    expect(left.body.rows).toEqual([{ n: 0 }]);
  });

  it('embeds no rows whose function writes', async () => {
    await loginAs.query('create table cups (id int primary key, tea_id int references teas)');
    await loginAs.query('insert into cups values (1, 1)');
    await loginAs.query(
      "create function log_row() returns boolean language sql volatile security definer as $$ insert into public.logs (line) values ('row') returning true $$",
    );
    await loginAs.query('alter table cups enable row level security');
    await loginAs.query('create policy all_rows on cups to authenticated using (log_row())');
    await loginAs.query('alter table teas enable row level security');
    await loginAs.query('create policy all_rows on teas to authenticated using (true)');
    const before = await written();
    for (const path of [
      'teas?select=id,cups(id)',
      'cups',
      'cups?select=id,teas(name)',
      'teas?select=id,cups!inner(id)',
      'cups?count=exact',
    ])
      expect(stateOf(await loginAs.rows(ann, 'GET', path)), path).toBe('25006');
    expect(await written()).toEqual(before);
    expect((await loginAs.rows(ann, 'GET', 'teas')).body.row_count).toBe(3);
    await loginAs.query('alter table teas disable row level security');
  });

  it('compares with no operator that writes', async () => {
    await loginAs.query('create type grade as (n int)');
    await loginAs.query(
      "create function grade_eq(grade, grade) returns boolean language plpgsql volatile security definer as $$ begin insert into public.logs (line) values ('eq'); return true; end $$",
    );
    await loginAs.query('create operator = (leftarg = grade, rightarg = grade, function = grade_eq)');
    await loginAs.query('create table graded (id int primary key, grade grade)');
    await loginAs.query('insert into graded values (1, row(1))');
    const before = await written();
    const answer = await rows(`graded?grade=eq.${encodeURIComponent('(1)')}`);
    expect(answer.status, JSON.stringify(answer.body)).toBe(400);
    expect(await written()).toEqual(before);
  });

  it('of a view that only reads works, and so do write requests', async () => {
    await loginAs.query(
      'create function upper_name(text) returns text language plpgsql stable as $$ begin return upper($1); end $$',
    );
    await loginAs.query('create view loud as select id, upper_name(name) as name from teas');
    expect((await rows('loud?order=id&limit=1&count=exact')).body).toMatchObject({
      rows: [{ id: 1, name: 'ASSAM' }],
      count: { rows: 3, kind: 'exact' },
    });
    expect((await rows('teas?limit=1')).body.rows).toEqual([{ id: 1, name: 'Assam' }]);
    const before = await written();
    expect((await loginAs.query('select line from logged limit 1')).body.rows).toEqual([{ line: 'x' }]);
    expect((await written()).n).toBeGreaterThan(before.n);
    const { status } = await rowhouse.call('POST', `/projects/${shop.slug}/tables/logs`, {
      key: shop.key,
      body: { line: 'w' },
    });
    expect(status).toBe(201);
  });

  it('leaves the session writable for the next request and the neighbour', async () => {
    for (let n = 0; n < 10; n++) {
      await rows('logged');
      expect((await loginAs.query("insert into logs (line) values ('again')")).status).toBe(200);
    }
    const { status } = await rowhouse.call('POST', `/projects/${neighbour.slug}/query`, {
      key: neighbour.key,
      body: { query: 'create table t (a int)' },
    });
    expect(status).toBe(200);
  });
});

describe('a key that may only read', () => {
  const ask = (text: string) =>
    rowhouse.call('POST', `/projects/${shop.slug}/query`, { key: asker, body: { query: text } });
  const batch = (...statements: string[]) =>
    rowhouse.call('POST', `/projects/${shop.slug}/batch`, {
      key: asker,
      body: { statements: statements.map((query) => ({ query })) },
    });

  it.each([
    ...[
      "insert into logs (line) values ('x')",
      "select nextval('counter')",
      "select setval('counter', 9)",
      "select lo_from_bytea(0, 'x')",
      'select lo_create(0)',
    ],
    ...[
      'select log_it()',
      'select * from logged',
      'create temp table t (a int)',
      'select * from teas for update',
      'explain analyze delete from logs',
    ],
    ...[
      "with w as (insert into logs (line) values ('x') returning 1) select * from w",
      'select into made from teas',
      'refresh materialized view none',
    ],
    ...[
      "do $$ begin insert into logs (line) values ('x'); end $$",
      "do $$ begin commit; insert into logs (line) values ('x'); end $$",
    ],
    ...[
      "do $$ begin set transaction read write; insert into logs (line) values ('x'); end $$",
      'set transaction read write',
      'set local transaction_read_only = off',
    ],
    ...[
      'select pg_advisory_lock(1)',
      "select pg_logical_emit_message(false, 'a', 'b')",
      "copy logs from program 'id'",
      'lock table logs in access exclusive mode',
    ],
  ])('does not write: %s', async (text) => {
    const before = await written();
    const answer = await ask(text);
    const isHarmless = /^(set|lock)/.test(text);
    if (!isHarmless) expect(answer.status, JSON.stringify(answer.body)).toBeGreaterThanOrEqual(400);
    expect(await written()).toEqual(before);
  });

  it.each([
    'set transaction read write',
    'set local transaction_read_only = off',
    'set local transaction_read_only to default',
    "select set_config('transaction_read_only', 'off', true)",
    'reset transaction_read_only',
    'set local default_transaction_read_only = off',
    'do $$ begin set transaction read write; end $$',
    'savepoint a',
    'commit',
    'commit and chain',
  ])('does not write in a batch that begins with: %s', async (first) => {
    const before = await written();
    const write = "insert into logs (line) values ('batch')";
    expect((await batch(first, write)).body.ok).toBe(false);
    const neon = await rowhouse.call('POST', '/sql', {
      key: '',
      headers: { 'neon-connection-string': `postgresql://x:${asker}@db.example/${shop.slug}` },
      body: { queries: [{ query: first }, { query: write }] },
    });
    expect(neon.status, JSON.stringify(neon.body)).toBeGreaterThanOrEqual(400);
    expect(neon.body.code, JSON.stringify(neon.body)).toBeTruthy();
    const asked = await rowhouse.call('POST', `/projects/${shop.slug}/batch`, {
      key: shop.key,
      body: { read_only: true, statements: [{ query: first }, { query: write }] },
    });
    expect(asked.body.ok).toBe(false);
    expect(await written()).toEqual(before);
  });
});
