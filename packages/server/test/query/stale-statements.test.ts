// A statement that is kept prepared is PostgreSQL's, with the types that its parameters had. After a change of tables, nobody may
// notice that it was kept.
import { beforeAll, describe, expect, it } from 'vitest';
import { useTestService } from '../support/helpers.ts';
import { runDirectly } from '../support/proxy-clients.ts';

const rowhouse = useTestService({ connections: { budget: 20, share: 6 } });
let project: { slug: string; id: string; key: string };
let neighbour: { slug: string; id: string; key: string };
beforeAll(async () => {
  project = await rowhouse.project('Migrated');
  neighbour = await rowhouse.project('Neighbour');
});

const run = (query: string, params: unknown[] = [], more: object = {}) =>
  rowhouse.call('POST', `/projects/${project.slug}/query`, {
    key: project.key,
    body: { query, params, ...more },
  });
const batch = (...statements: string[]) =>
  rowhouse.call('POST', `/projects/${project.slug}/batch`, {
    key: project.key,
    body: { statements: statements.map((query) => ({ query })) },
  });
/** In a session of which the service knows nothing. */
const psql = (...statements: string[]) => runDirectly(rowhouse, project.slug, statements);
const inQueries = async (...statements: string[]) => {
  for (const statement of statements) expect((await run(statement)).body).toMatchObject({ ok: true });
};
const inBatch = async (...statements: string[]) =>
  expect((await batch(...statements)).body).toMatchObject({ ok: true });
const ways = { '/query': inQueries, '/batch': inBatch, 'a direct session': psql };

/** Often enough, and so many at once, that several sessions keep it. */
async function warm(query: string, params: unknown[], more: object = {}): Promise<void> {
  for (let round = 0; round < 8; round++)
    for (const { status, body } of await Promise.all(
      Array.from({ length: 12 }, () => run(query, params, more)),
    ))
      expect(status, JSON.stringify(body)).toBe(200);
}
const several = (query: string, params: unknown[], more: object = {}) =>
  Promise.all(Array.from({ length: 24 }, () => run(query, params, more)));

let count = 0;
for (const [way, change] of Object.entries(ways)) {
  describe(`after a change by ${way}`, () => {
    it('a parameter takes a value of the new type of its column', async () => {
      const table = `retyped_${++count}`;
      await inQueries(
        `create table ${table} (id int primary key, v text)`,
        `insert into ${table} values (1, 'a')`,
      );
      const query = `select * from ${table} where id = $1`;
      const shapes = [{}, { read_only: true }, { dry_run: true }, { max_affected: 5 }];
      for (const more of shapes) await warm(query, [1], more);
      await change(
        `alter table ${table} alter id type bigint`,
        `insert into ${table} values (3000000000, 'b')`,
      );
      for (const more of shapes) {
        for (const { body } of await several(query, [3_000_000_000], more))
          expect(body).toMatchObject({ ok: true, rows: [{ id: 3_000_000_000, v: 'b' }] });
      }
    });

    it('an insert takes a value of the new type, alone and in a group with others', async () => {
      const table = `inserted_${++count}`;
      await inQueries(`create table ${table} (id int, v text)`);
      const query = `insert into ${table} (id, v) values ($1, $2) returning id`;
      await warm(query, [1, 'a']);
      await change(`alter table ${table} alter id type uuid using gen_random_uuid()`);
      const id = '5a9d1c3e-0c5b-4c3f-9f53-5a1c1e0d8a11';
      const answers = await several(query, [id, 'b']);
      for (const { body } of answers) expect(body).toMatchObject({ ok: true, rows: [{ id }] });
      const counted = await run(`select count(*)::int as n from ${table} where v = 'b'`);
      expect(counted.body.rows).toEqual([{ n: answers.length }]);
    });

    it('an array of the new element type, and JSON in place of an array, are read as such', async () => {
      const table = `lists_${++count}`;
      await inQueries(`create table ${table} (id int, list int[])`, `insert into ${table} values (1, '{1}')`);
      const any = `select id from ${table} where id = any ($1)`;
      const put = `update ${table} set list = $1 returning list`;
      await warm(any, [[1]]);
      await warm(put, [[1, 2]]);
      await change(
        `alter table ${table} alter id type bigint`,
        `update ${table} set id = 3000000000`,
        `alter table ${table} alter list type jsonb using to_jsonb(list)`,
      );
      for (const { body } of await several(any, [[3_000_000_000]]))
        expect(body).toMatchObject({ ok: true, rows: [{ id: 3_000_000_000 }] });
      for (const { body } of await several(put, [[1, 2]]))
        expect(body).toMatchObject({ ok: true, rows: [{ list: [1, 2] }] });
    });

    it('an enum that was made anew is the new one', async () => {
      const name = `mood_${++count}`;
      await inQueries(`create type ${name} as enum ('low')`, `create table of_${name} (m ${name})`);
      const query = `insert into of_${name} values ($1) returning m`;
      const find = `select count(*)::int as n from of_${name} where m = $1`;
      await warm(query, ['low']);
      await warm(find, ['low']);
      await change(
        `drop type ${name} cascade`,
        `create type ${name} as enum ('high')`,
        `alter table of_${name} add column m ${name}`,
      );
      for (const { body } of await several(find, ['high']))
        expect(body).toMatchObject({ ok: true, rows: [{ n: 0 }] });
      for (const { body } of await several(query, ['high']))
        expect(body).toMatchObject({ ok: true, rows: [{ m: 'high' }] });
    });

    it.skipIf(way === 'a direct session').each([
      ['create table', 'as select 1 as a'],
      ['select 1 as a into', ''],
      ['create materialized view', 'as select 1 as a'],
      ['explain analyze create table', 'as select 1 as a'],
    ])('a call is the cast that it has become by %s … %s', async (first, last) => {
      // The type of arrays of the new table is called like the function, and its tag says only how many rows were selected.
      const table = `called_${++count}`;
      await inQueries(`create function _${table}(text) returns text language sql as 'select $1'`);
      const query = `select _${table}('x') as v`;
      await warm(query, []);
      await change(`${first} ${table} ${last}`);
      for (const { status, body } of await several(query, []))
        expect([status, body.error?.sql.state]).toEqual([422, '22P02']);
    });

    it('a real error is the one that a new connection would get, and is not hidden by a repetition', async () => {
      const table = `gone_${++count}`;
      await inQueries(`create table ${table} (id int primary key, v text)`);
      const query = `select * from ${table} where id = $1`;
      await warm(query, [1]);
      for (const { status, body } of await several(query, ['one']))
        expect([status, body.error.sql.state]).toEqual([422, '22P02']);
      await change(`alter table ${table} rename column id to number`);
      for (const { status, body } of await several(query, [1]))
        expect([status, body.error.sql.state]).toEqual([400, '42703']);
      await change(`drop table ${table}`);
      for (const { status, body } of await several(query, [1]))
        expect([status, body.error.sql.state]).toEqual([400, '42P01']);
    });
  });
}

it('a neighbour noticed nothing', async () => {
  const { body } = await rowhouse.call('POST', `/projects/${neighbour.slug}/query`, {
    key: neighbour.key,
    body: { query: 'select $1::int as n', params: [1] },
  });
  expect(body.rows).toEqual([{ n: 1 }]);
});
