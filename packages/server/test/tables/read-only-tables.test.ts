// A GET on a table writes nothing, even where a project's own code was taken for PostgreSQL's.
import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { asAdmin, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();

const newProject = async (name: string) => {
  const { body } = await rowhouse.call('POST', '/projects', { body: { name, limit_mb: 4 } });
  const { slug, id } = body.project as { slug: string; id: string };
  const query = async (text: string) => {
    const answer = await rowhouse.call('POST', `/projects/${slug}/query`, {
      key: body.api_key,
      body: { query: text },
    });
    expect(answer.status, `${text}: ${JSON.stringify(answer.body)}`).toBe(200);
    return answer.body;
  };
  return { slug, id, query };
};

let shop: Awaited<ReturnType<typeof newProject>>;
let neighbour: Awaited<ReturnType<typeof newProject>>;
let reader: string;

const rows = (path: string) => rowhouse.call('GET', `/projects/${shop.slug}/tables/${path}`, { key: reader });
/** PostgreSQL keeps copies of its catalog beside the tables, and writes them anew as it likes. */
const spare = 512 * 1024;
const storedBytes = async () => {
  const [size] = await asAdmin((admin) =>
    admin.query<{ bytes: number }>(sql`select pg_database_size(${databaseOf(shop.id)})::float8 as bytes`),
  );
  return size?.bytes ?? 0;
};
const written = async () => {
  const { rows: found } = await shop.query(
    `select (select count(*) from logs) as logs, (select count(*) from pg_largeobject_metadata) as objects,
       (select is_called from counter) as counted`,
  );
  return found[0];
};

beforeAll(async () => {
  shop = await newProject('Shop');
  neighbour = await newProject('Neighbour');
  await neighbour.query('create table t (a int)');
  for (const text of [
    'create table logs (line text)',
    'create sequence counter',
    `create function note() returns boolean language plpgsql volatile security definer as $$ begin
       perform pg_catalog.lo_from_bytea(0, (select pg_catalog.string_agg(pg_catalog.uuid_send(pg_catalog.gen_random_uuid()), '') from pg_catalog.generate_series(1, 20000)));
       insert into public.logs values (pg_catalog.repeat('x', 1000));
       perform pg_catalog.nextval('public.counter');
       return true; end $$`,
    "create type mood as enum ('ok', 'sad')",
    'create function mood_test(mood, mood) returns boolean language plpgsql as $$ begin return public.note(); end $$',
    ...['=', '<>', '<', '>'].map(
      (symbol) => `create operator public.${symbol} (leftarg = mood, rightarg = mood, function = mood_test)`,
    ),
    'create table people (id int primary key, m mood)',
    "insert into people select n, 'ok' from generate_series(1, 20) as n",
    'create table pets (id int primary key, owner int references people, m mood)',
    "insert into pets values (1, 1, 'ok')",
  ])
    await shop.query(text);
  const keys = `/projects/${shop.slug}/keys`;
  const { body } = await rowhouse.call('POST', keys, { body: { name: 'r', scopes: ['tables:read'] } });
  reader = body.api_key;
});

describe('an operator of the project on an enum, which writes', () => {
  it.each([
    'people?m=eq.ok',
    'people?m=eq.ok&count=exact',
    'people?m=eq.ok&count=estimated',
    'people?m=neq.sad&order=id&page=2&limit=5',
    'people?m=in.(ok,sad)&count=exact',
    'people?or=(m.gt.ok,m.lt.sad)',
    'people?m=not.eq.sad&numbers=string',
    'people?select=id,pets!inner(id)&pets.m=eq.ok',
    'pets?select=id,people(m)&m=isdistinct.sad&count=exact',
  ])('writes nothing: %s', async (path) => {
    const [before, bytes] = [await written(), await storedBytes()];
    for (let turn = 0; turn < 3; turn++) {
      const { status, body } = await rows(path);
      expect([status, body.error?.sql?.state], JSON.stringify(body)).toEqual([400, '25006']);
      expect(body.error.hint).toContain('POST …/query');
    }
    expect(await written()).toEqual(before);
    expect(await storedBytes()).toBeLessThan(bytes + spare);
  });

  it('writes nothing when many ask at once', { tags: 'long' }, async () => {
    const [before, bytes] = [await written(), await storedBytes()];
    // Other texts each time, so that none is known for what it does.
    const paths = Array.from({ length: 60 }, (_, n) => `people?m=eq.ok&limit=${(n % 15) + 1}&count=exact`);
    const answers = await Promise.all(paths.map(rows));
    // So many may have to wait for a connection for too long.
    const ran = answers.filter(({ status }) => status !== 429);
    expect(ran).not.toEqual([]);
    for (const { status, body } of ran)
      expect([status, body.error?.sql?.state], JSON.stringify(body)).toEqual([400, '25006']);
    expect(await written()).toEqual(before);
    expect(await storedBytes()).toBeLessThan(bytes + spare);
  });

  it('does not make its session writable for the reads behind it', { tags: 'long' }, async () => {
    const before = await written();
    const test = (body: string) =>
      shop.query(
        `create or replace function mood_test(mood, mood) returns boolean language plpgsql as $$ begin ${body} return true; end $$`,
      );
    const many = () =>
      Promise.all(
        Array.from({ length: 60 }, (_, n) => rows(`people?select=id&m=eq.ok&limit=${(n % 7) + 1}`)),
      );
    await test('');
    for (let turn = 0; turn < 5; turn++) await many();
    await test(`perform pg_catalog.set_config('default_transaction_read_only', 'off', false);
      begin perform public.note(); exception when others then null; end;`);
    for (let turn = 0; turn < 5; turn++) await many();
    expect(await written()).toEqual(before);
  });

  it('does not affect other reads, writes and the neighbour', async () => {
    expect((await rows('people?id=lt.3&select=id&count=exact')).body).toMatchObject({
      rows: [{ id: 1 }, { id: 2 }],
      count: { rows: 2, kind: 'exact' },
    });
    await shop.query("insert into logs values ('asked for')");
    await neighbour.query('insert into t values (1)');
    expect((await neighbour.query('select count(*)::int as n from t')).rows).toEqual([{ n: 1 }]);
  });
});
