// Inserts near the limit that run without a size check, and which ones do.
import { randomBytes, randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { insertFacts } from '../../src/query/statement/insert-growth.ts';
import { knownMs } from '../../src/quotas/headroom.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { address, asAdmin, until, useTestService } from '../support/helpers.ts';
import { countGrants, newSmallProject, type SmallProject, untilGranted } from './small-projects.ts';

const rowhouse = useTestService();
let project: SmallProject;
let grants: { count: number };
beforeAll(async () => {
  grants = countGrants(rowhouse);
  project = await newSmallProject(rowhouse, 40);
  for (const query of [
    'create table target (a int primary key)',
    'create function own() returns text language sql as $$ select 1::text $$',
    `create function own(int) returns boolean language plpgsql immutable as $$ begin return true; end $$`,
    'create function more() returns trigger language plpgsql as $$ begin return new; end $$',
    'create domain short as text check (length(value) < 9)',
    'create type pair as (a int, b int)',
    "create type mood as enum ('sad', 'glad')",
    'create table whole (a int) partition by list (a)',
  ])
    await project.fine(query);
});

/** The known facts about a table; null if they do not suffice. */
const factsOf = async (relation: string) => {
  const { rows } = await project.fine(insertFacts, [relation]);
  return rows.length === 0 ? null : JSON.parse(rows[0].json_build_object);
};

describe('an insert is known to be small, in a table with', () => {
  it.each<[string, string, object]>([
    ['no index', 'create table t (a int, b text)', { narrowIndexes: 0, wideIndexes: 0, hasToast: true }],
    [
      'an identity',
      'create table t (a bigint generated always as identity primary key)',
      { narrowIndexes: 1 },
    ],
    ['a serial', 'create table t (a serial primary key, b float8)', { hasToast: false, factor: 0 }],
    [
      'a uuid',
      'create table t (a uuid primary key default gen_random_uuid(), b int unique)',
      { narrowIndexes: 2 },
    ],
    [
      'times',
      "create table t (a timestamptz default now(), b timestamp default (now() at time zone 'utc'))",
      {},
    ],
    [
      'constants',
      "create table t (a varchar(20) default 'x', b numeric(8, 2) default 0, c boolean default true)",
      {},
    ],
    ['a padded column', 'create table t (a char(1000))', { fixedBytes: 1016 }],
    ['JSON', "create table t (a jsonb not null default '{}')", { factor: 8 }],
    ['arrays', 'create table t (a text[], b jsonb)', { factor: 8 }],
    ['arrays of padded values', 'create table t (a char(1000)[])', { factor: 504 }],
    ['arrays of names', 'create table t (a name[])', { factor: 36 }],
    ['an enum', "create table t (a mood default 'sad')", {}],
    ['a key of text', 'create table t (a text unique, b inet)', { narrowIndexes: 0, wideIndexes: 1 }],
    [
      'an index on an expression',
      'create table t (a text); create index on t (lower(a)) where a <> $$$$',
      { wideIndexes: 1 },
    ],
    ['a check', "create table t (a int check (a > 0), b text check (b <> ''))", {}],
    ['a foreign key', 'create table t (a int references target)', {}],
    ['row security', 'create table t (a int); alter table t enable row level security', {}],
    ['a parent', 'create table t partition of whole for values in (1)', {}],
    ['children', 'create table t (a int); create table child () inherits (t)', {}],
  ])('%s', async (_name, ddl, expected) => {
    await project.fine('drop table if exists t cascade');
    for (const query of ddl.split('; ')) await project.fine(query);
    expect(await factsOf('"t"')).toMatchObject(expected);
  });
});

describe('an insert is not known to be small, in', () => {
  it.each<[string, string, string?]>([
    [
      'a table with a trigger',
      'create table t (a int); create trigger more before insert on t for each row execute function more()',
    ],
    ['a table with a rule', 'create table t (a int); create rule r as on insert to t do also select 1'],
    [
      'a table with a policy of its own',
      'create table t (a int); alter table t enable row level security; alter table t force row level security; create policy p on t using (own(a))',
    ],
    ['a partitioned table', 'select 1', '"whole"'],
    ['a view', 'create view t as select a from target'],
    ['an unlogged table', 'create unlogged table t (a int)'],
    ['a table of the service', 'select 1', '"auth"."users"'],
    ['a table that does not exist', 'select 1', '"missing"'],
    [
      'a table with a stored column',
      'create table t (a int, b text generated always as (a + 1) stored)'.replace('a + 1', "repeat('x', a)"),
    ],
    ['a table with a virtual column', 'create table t (a int, b int generated always as (a + 1) virtual)'],
    ['a table with a domain', 'create table t (a short)'],
    ['a table with a composite type', 'create table t (a pair)'],
    ['a table with a type of unknown size', 'create table t (a tsvector)'],
    ['a table with an array of domains', 'create table t (a short[])'],
    ['a table with ranges', 'create table t (a int4range)'],
    ['a table with a long default', "create table t (a text default repeat('x', 1000000))"],
    ['a table with a default of its own', 'create table t (a text default own())'],
    ['a table with a converted default', 'create table t (a text default 10::numeric ^ 1000)'],
    ['a table with a GIN index', 'create table t (a jsonb); create index on t using gin (a)'],
    ['a table with a hash index', 'create table t (a int); create index on t using hash (a)'],
    ['a table with a constraint of exclusion', 'create table t (a box, exclude using gist (a with &&))'],
    ['a table with a check of its own', 'create table t (a int check (own(a)))'],
    ['a table with an index of its own', 'create table t (a int); create index on t (own(a))'],
    [
      'a table that references one with code',
      'create table other (a int primary key); create index on other (own(a)); create table t (a int references other)',
    ],
  ])('%s', async (_name, ddl, relation = '"t"') => {
    await project.run('drop view if exists t');
    for (const table of ['t cascade', 'other cascade', 'child'])
      await project.run(`drop table if exists ${table}`);
    for (const query of ddl.split('; ')) await project.fine(query);
    expect(await factsOf(relation)).toBeNull();
    await project.run('drop view if exists t');
  });
});

describe('the bound of an insert', () => {
  const columns = Array.from({ length: 10 }, (_, n) => `c${n}`);
  const random = columns.map(() => '(random() * 1e14)::bigint').join(', ');
  const cases: [string, string[], string, () => unknown[], least: number][] = [
    [
      'random keys in ten indexes of full pages',
      [
        `create table t (${columns.map((name) => `${name} bigint`).join(', ')})`,
        `insert into t select ${random} from generate_series(1, 20000)`,
        ...columns.map((name) => `create index on t (${name}) with (fillfactor = 100)`),
      ],
      `insert into t values (${columns.map((_, n) => `$${n + 1}`).join(', ')})`,
      () => columns.map(() => randomInt(1e14)),
      0.4,
    ],
    [
      'values out of line',
      ['create table t (a text)', 'alter table t alter a set storage external'],
      'insert into t values ($1)',
      () => [randomBytes(10_000).toString('hex')],
      0.1,
    ],
    [
      'a row on each page',
      ['create table t (a text)', 'alter table t alter a set storage plain'],
      'insert into t values ($1)',
      () => ['x'.repeat(5_000)],
      0.1,
    ],
    [
      'JSON of many small numbers',
      ['create table t (a jsonb)', 'alter table t alter a set storage external'],
      'insert into t values ($1)',
      () => [`[${Array(2_000).fill(1).join(',')}]`],
      0.05,
    ],
  ];
  it.each(cases)('holds, and is not far off: %s', async (_name, prepare, text, params, least) => {
    const small = await newSmallProject(rowhouse, 40);
    for (const query of prepare) await small.fine(query);
    const login = { id: small.id, serverId: 1, passwordVersion: 1, accountId: null };
    const insert = { relation: '"t"', rows: 1, constantBytes: 0 };
    const { insertBounds } = rowhouse.service.deps.query;
    await until('the table is known', () => Promise.resolve(insertBounds.find(login, insert, []) !== null));
    await small.fine('vacuum t');
    let bound = 0;
    const before = await small.storedMb();
    for (let n = 0; n < 40; n++) {
      const values = params();
      bound += insertBounds.find(login, insert, values)?.bytes ?? 0;
      await small.fine(text, values);
    }
    const grown = ((await small.storedMb()) - before) * 1024 * 1024;
    expect(grown).toBeLessThanOrEqual(bound);
    expect(grown).toBeGreaterThan(bound * least);
  });
});

describe('near the limit', () => {
  beforeAll(async () => {
    await project.run('drop table if exists t cascade');
    await project.fine('create table t (id bigint generated always as identity primary key, a int, b text)');
  });

  it('inserts by either endpoint run without a size check, and are all there', async () => {
    const before = grants.count;
    await untilGranted(grants, () =>
      project.fine('insert into t (a, b) values ($1, $2) returning id', [1, 'x']),
    );
    await untilGranted(grants, async () =>
      expect((await project.add('t', { a: 1, b: 'x' })).status).toBe(201),
    );
    expect(grants.count).toBeGreaterThan(before);
    const { rows } = await project.fine('select count(*)::int as count from t');
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, n) =>
        n % 2 === 0 ? project.add('t', { a: 2 }) : project.run('insert into t (a) values (2), (default)'),
      ),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 201]));
    const { rows: after } = await project.fine('select count(*)::int as count from t');
    expect(after[0].count - rows[0].count).toBe(150);
  });

  it('a failing insert fails alone', async () => {
    await project.fine('create unique index unique_a on t (a) where a > 100');
    await untilGranted(grants, () => project.fine("insert into t (b) values ('x')"));
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        project.run('insert into t (a) values ($1)', [n === 7 ? 206 : 200 + n]),
      ),
    );
    expect(answers.filter(({ status }) => status === 409 || status === 400).length).toBe(1);
    expect(answers.filter(({ status }) => status === 200).length).toBe(19);
  });

  it('an insert that fails leaves what is known of its table, and only a changed table is doubted', async () => {
    const { insertBounds } = rowhouse.service.deps.query;
    const { doubt } = insertBounds;
    let doubts = 0;
    insertBounds.doubt = (...given) => {
      doubts++;
      doubt(...given);
    };
    let next = 1_000;
    await until('a failing insert ran without a size check', async () => {
      await untilGranted(grants, () => project.fine('insert into t (a) values ($1)', [next++]));
      const before = grants.count;
      // The index of the test before has changed the table.
      doubts = 0;
      expect((await project.run('insert into t (a) values ($1)', [201])).status).not.toBe(200);
      return grants.count > before;
    });
    expect(doubts).toBe(0);
    const insert = () => project.fine("insert into t (b) values ('x')");
    await untilGranted(grants, insert);
    // By a direct connection: the service sees nothing of it.
    await asAdmin((admin) => admin.query(sql`alter table public.t add column c int`), {
      ...address(),
      database: databaseOf(project.id),
    });
    await until('the guard fails', async () => {
      await insert();
      return doubts > 0;
    });
    await untilGranted(grants, insert);
    insertBounds.doubt = doubt;
  });

  it('a table that another statement has changed is judged again', async () => {
    const insert = () => project.fine("insert into t (b) values ('x')");
    await untilGranted(grants, insert);
    await project.fine('create table log (b text)');
    await project.fine(
      `create function note() returns trigger language plpgsql as $$ begin
         insert into log values (new.b); return new; end $$`,
    );
    await project.fine('create trigger note after insert on t for each row execute function note()');
    const before = grants.count;
    for (let n = 0; n < 20; n++) await insert();
    const { rows } = await project.fine('select count(*)::int as count from log');
    expect(rows[0].count).toBe(20);
    expect(grants.count - before, 'the first one found out').toBeLessThanOrEqual(1);
    await project.fine('drop trigger note on t');
    await untilGranted(grants, insert);
  });

  it('the first insert after a pause gets its session to itself, and no other is opened beside it', async () => {
    const idle = await newSmallProject(rowhouse, 200);
    await idle.fine('create table t (a int)');
    // Known to be short by now.
    expect((await idle.add('t', { a: 1 })).status).toBe(201);
    await sleep(knownMs + 500);
    expect((await idle.add('t', { a: 2 })).status).toBe(201);
    const { server, query } = rowhouse.service.deps;
    expect(query.sessions.pidsOf(idle.id, server.id)).toHaveLength(1);
  });

  it('is far from the limit for nobody else', async () => {
    const large = await newSmallProject(rowhouse, 4_000);
    await large.fine('create table t (a int)');
    const before = grants.count;
    for (let n = 0; n < 20; n++) await large.fine('insert into t values (1)');
    expect(grants.count).toBe(before);
  });
});
