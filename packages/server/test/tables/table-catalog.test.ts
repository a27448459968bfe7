import { beforeAll, describe, expect, it } from 'vitest';
import { areUnchanged, findTables, getTable } from '../../src/tables/catalog/catalog.ts';
import { describeSchema, listTables } from '../../src/tables/catalog/describe.ts';
import { useTestService } from '../support/helpers.ts';
import { useTableSessions } from '../support/table-session.ts';

const rowhouse = useTestService({ spares: 1 });
const { session, other } = useTableSessions(rowhouse);

const make = (text: string) => session.client.query(text);
const get = (name: string) => getTable(session.ask, name);

describe('the description of a table', () => {
  beforeAll(async () => {
    await make(`
      create type mood as enum ('sad', 'so so', 'happy');
      create domain small as int check (value < 1000);
      create type pair as (a int, at timestamptz);
      create table people (
        id bigint generated always as identity primary key,
        email varchar(200) not null unique,
        mood mood default 'sad',
        size small,
        pairs pair[],
        tags text[],
        total numeric(10,2),
        shout text generated always as (upper(email)) stored,
        boss bigint references people,
        born timestamp
      );
      create table teams (id int primary key, name text);
      create table members (person bigint references people, team int references teams, since date, primary key (person, team));
      create table badges (person bigint primary key references people on delete cascade, label text);
      create view grown as select id, email from people;
      create table plain (id serial primary key, name text default 'x' check (length(name) < 100), at timestamptz default now());
      create schema shop; create table shop.orders (id int); create table "shop.orders" (id int, here text);
    `);
  });

  it('has its columns', async () => {
    const { columns, kind, schema } = await get('people');
    expect([kind, schema]).toEqual(['table', 'public']);
    expect(columns.get('id')).toMatchObject({
      type: 'bigint',
      typeOid: 20,
      notNull: true,
      identity: 'always',
      generated: null,
      shape: { is: 'big' },
    });
    expect(columns.get('email')).toMatchObject({
      type: 'character varying(200)',
      notNull: true,
      hasDefault: false,
    });
    expect(columns.get('mood')).toMatchObject({
      type: 'mood',
      hasDefault: true,
      enumValues: ['sad', 'so so', 'happy'],
    });
    expect(columns.get('size')).toMatchObject({ shape: { is: 'plain' } });
    expect(columns.get('pairs')).toMatchObject({
      shape: {
        is: 'composite',
        isArray: true,
        fields: [{ name: 'a' }, { name: 'at', shape: { is: 'timestamptz' } }],
      },
    });
    expect(columns.get('tags')).toMatchObject({ shape: { is: 'text', isArray: true } });
    expect(columns.get('shout')).toMatchObject({ generated: 'stored' });
    expect([...columns.keys()]).toHaveLength(10);
  });

  it('has keys and references, in both directions and through a join table', async () => {
    const { primaryKey, uniques, references } = await get('people');
    expect(primaryKey).toEqual(['id']);
    expect(uniques).toEqual([['email']]);
    const short = references.map(({ name, isOwn, isToOne, target, columns, targetColumns, through }) => ({
      name,
      isOwn,
      isToOne,
      target: target.name,
      columns,
      targetColumns,
      through: through?.table.name ?? null,
    }));
    expect(short).toEqual([
      {
        name: 'people_boss_fkey',
        isOwn: true,
        isToOne: true,
        target: 'people',
        columns: ['boss'],
        targetColumns: ['id'],
        through: null,
      },
      {
        name: 'badges_person_fkey',
        isOwn: false,
        isToOne: true,
        target: 'badges',
        columns: ['id'],
        targetColumns: ['person'],
        through: null,
      },
      {
        name: 'members_person_fkey',
        isOwn: false,
        isToOne: false,
        target: 'members',
        columns: ['id'],
        targetColumns: ['person'],
        through: null,
      },
      {
        name: 'people_boss_fkey',
        isOwn: false,
        isToOne: false,
        target: 'people',
        columns: ['id'],
        targetColumns: ['boss'],
        through: null,
      },
      {
        name: 'members_person_fkey',
        isOwn: false,
        isToOne: false,
        target: 'teams',
        columns: ['id'],
        targetColumns: ['id'],
        through: 'members',
      },
    ]);
  });

  it('says what can be done with it, and hides what the role may not see', async () => {
    expect(await get('plain')).toMatchObject({
      isPlainToRead: true,
      isPlainToWrite: true,
      usesSequences: true,
      can: { insert: true, update: true, delete: true },
    });
    expect(await get('teams')).toMatchObject({
      isPlainToRead: true,
      isPlainToWrite: true,
      usesSequences: false,
    });
    expect(await get('people'), 'types of its own; a cascade hangs on it').toMatchObject({
      isPlainToRead: false,
      isPlainToWrite: false,
    });
    expect(await get('grown')).toMatchObject({
      kind: 'view',
      isPlainToRead: false,
      primaryKey: [],
      can: { insert: true },
    });
    await make(
      `
      create function f() returns int language sql immutable as 'select 1';
      create table hidden_default (id int default f());
      create table hidden_setting (id int, t text default set_config('a.b', 'c', false));
      create table hidden_index (id int); create index on hidden_index ((id + f()));
      create table hidden_check (id int check (id > f()));
      create table hidden_virtual (id int, twice int generated always as (id * 2));
      create table hidden_rows (id int); alter table hidden_rows enable row level security;
      create table hidden_rule (id int); create rule r as on insert to hidden_rule do also notify x;
      create table hidden_trigger (id int);
      create trigger t before insert on hidden_trigger for each row execute function suppress_redundant_updates_trigger();
      create table hidden_child () inherits (teams);
    `.replace('create trigger t before insert', 'create trigger t before update'),
    );
    const judged: Record<string, [boolean, boolean]> = {};
    for (const name of ['default', 'setting', 'index', 'check', 'virtual', 'rows', 'rule', 'trigger']) {
      const { isPlainToRead, isPlainToWrite } = await get(`hidden_${name}`);
      judged[name] = [isPlainToRead, isPlainToWrite];
    }
    expect(judged).toEqual({
      default: [true, false],
      setting: [true, false],
      index: [false, false],
      check: [false, false],
      virtual: [false, false],
      // The owner is exempt from policies.
      rows: [true, true],
      rule: [false, false],
      trigger: [true, false],
    });
    expect(await get('teams')).toMatchObject({ hasChildren: true, isPlainToRead: true });
  });

  it('is found by name, with and without a schema, with a dot in it', async () => {
    expect((await get('shop.orders')).columns.has('here'), 'a table of public comes first').toBe(true);
    await make('drop table "shop.orders"');
    expect(await get('shop.orders')).toMatchObject({ schema: 'shop', name: 'orders' });
    expect(await get('public.people')).toMatchObject({ name: 'people' });
    await make(
      'create schema "a.b"; create table "a.b"."c.d" (id int); create table "sélect ""x""" (id int)',
    );
    expect(await get('a.b.c.d')).toMatchObject({ schema: 'a.b', name: 'c.d' });
    expect(await get('sélect "x"')).toMatchObject({ name: 'sélect "x"' });
  });

  it.each([
    ['peeple', 'people'],
    ['People', 'people'],
    ['shop.order', 'shop.orders'],
    ['zzz', null],
    ['', null],
    ['../people', 'people'],
    ['x'.repeat(64), null],
    ['x'.repeat(100_000), null],
    ['people\0', 'people'],
    ['pg_catalog.pg_class', null],
    ['pg_class', null],
    ['information_schema.tables', null],
    ['rowhouse.migrations', null],
    ['__proto__', null],
    ["people'--", 'people'],
    ['.people', 'people'],
    ['.', null],
  ])('does not exist for %s', async (name, nearest) => {
    const error = await get(name).catch((thrown) => thrown);
    expect(error).toMatchObject({ code: 'table_not_found', status: 404 });
    expect(error.details?.nearest ?? null).toBe(nearest);
    expect(error.message.length).toBeLessThan(200);
  });

  it('is found for several oids at once', async () => {
    const { oid } = await get('people');
    const { oid: second } = await get('teams');
    expect((await findTables(session.ask, [oid, second, 1])).map(({ name }) => name).sort()).toEqual([
      'people',
      'teams',
    ]);
    expect(await findTables(session.ask, [])).toEqual([]);
  });

  it('is not affected by functions and operators of the project', async () => {
    const before = await get('plain');
    await make(`
      create function public.format_type(oid, int) returns text language sql as 'select ''fooled''';
      create function public.fooled(oid, oid) returns boolean language sql as 'select false';
      create operator public.= (leftarg = oid, rightarg = oid, function = public.fooled);
      create table public.pg_class (id int); create table public.pg_attribute (id int);
    `);
    await make('set search_path = public, pg_catalog');
    expect(await get('plain')).toEqual(before);
    await make(
      'reset search_path; drop operator public.= (oid, oid); drop table public.pg_class, public.pg_attribute',
    );
  });

  it('covers partitions and their keys', async () => {
    await make(`
      create table parts (id int, at date, primary key (id, at)) partition by range (at);
      create table parts_1 partition of parts for values from ('2026-01-01') to ('2027-01-01');
      create table leaves (part int, at date, foreign key (part, at) references parts);
    `);
    expect(await get('parts')).toMatchObject({
      kind: 'partitioned',
      primaryKey: ['id', 'at'],
      hasChildren: true,
    });
    expect((await get('leaves')).references).toHaveLength(1);
    expect((await get('parts')).references).toHaveLength(1);
  });
});

describe('the list of all tables', () => {
  it('has kinds, estimates and sizes', async () => {
    await make('analyze teams');
    const list = await listTables(session.ask);
    const names = list.map(({ schema, name }) => `${schema}.${name}`);
    expect(names).toContain('public.people');
    expect(names).toContain('shop.orders');
    expect(names, 'a part of its table').not.toContain('public.parts_1');
    expect(names.filter((name) => /^(pg_|rowhouse|information)/.test(name))).toEqual([]);
    expect(list.find(({ name }) => name === 'teams')).toEqual({
      schema: 'public',
      name: 'teams',
      kind: 'table',
      row_estimate: 0,
      size_bytes: 16_384,
      comment: null,
    });
    expect(list.find(({ name }) => name === 'people')?.row_estimate).toBeNull();
    expect(list.find(({ name }) => name === 'grown')).toMatchObject({
      kind: 'view',
      row_estimate: null,
      size_bytes: 0,
    });
    expect(list.find(({ name }) => name === 'parts')).toMatchObject({ kind: 'partitioned' });
  });

  it('has all columns and keys', async () => {
    await make("comment on table people is 'Who is who'; comment on column people.email is 'Where to write'");
    const { tables, enums, functions } = await describeSchema(session.ask);
    const people = tables.find(({ name }) => name === 'people');
    expect(people).toMatchObject({
      comment: 'Who is who',
      primary_key: ['id'],
      uniques: [['email']],
      references: [
        {
          name: 'people_boss_fkey',
          columns: ['boss'],
          target: { schema: 'public', name: 'people' },
          target_columns: ['id'],
        },
      ],
    });
    expect(people?.columns.find(({ name }) => name === 'mood')).toEqual({
      name: 'mood',
      type: 'mood',
      is_row: false,
      not_null: false,
      default: "'sad'::mood",
      identity: null,
      generated: null,
      enum: 'public.mood',
      comment: null,
    });
    expect(people?.columns.find(({ name }) => name === 'shout')).toMatchObject({
      default: null,
      generated: 'stored',
    });
    expect(people?.columns.find(({ name }) => name === 'email')?.comment).toBe('Where to write');
    expect(enums).toEqual([{ schema: 'public', name: 'mood', values: ['sad', 'so so', 'happy'] }]);
    expect(functions).toContainEqual(
      expect.objectContaining({ name: 'f', returns: 'integer', volatility: 'immutable', arguments: '' }),
    );
  });
});

/** A statement compiled before a change, prepared and run often enough to have a plan of its own. */
async function prepared(table: string, query = ''): Promise<() => Promise<string>> {
  const compiled = await session.compile(table, query);
  const run = () =>
    other.run(compiled.text, compiled.params).then(
      () => 'ran',
      (error) => error.code as string,
    );
  for (let round = 0; round < 7; round++) expect(await run()).toBe('ran');
  return run;
}

describe('a table that has changed is noticed before anything runs', () => {
  beforeAll(async () => {
    await make(
      'create or replace function nothing() returns trigger language plpgsql as $$ begin return new; end $$',
    );
  });
  const fresh = `
    drop table if exists kept, was, others cascade; drop view if exists seen;
    create table others (id int primary key);
    create table kept (id bigint primary key, name text, price numeric, mood mood, n int);
    insert into kept select n, 'n' || n, n, 'sad', n from generate_series(1, 2000) as n; analyze kept;
    create view seen as select id, name from kept;`;

  const changed = 'RH001';
  it.each([
    ['a column more', 'alter table kept add more int', changed],
    ['a shown column gone', 'alter table kept drop price', '42703'],
    ['a column renamed', 'alter table kept rename n to m', '42703'],
    [
      'names exchanged',
      'alter table kept rename price to x; alter table kept rename n to price; alter table kept rename x to n',
      '0A000',
    ],
    ['another type', 'alter table kept alter price type text', '0A000'],
    ['not null', 'alter table kept alter n set not null', changed],
    ['no key', 'alter table kept drop constraint kept_pkey cascade', changed],
    [
      'another key',
      'alter table kept drop constraint kept_pkey cascade; alter table kept add primary key (n)',
      changed,
    ],
    ['one unique key more', 'create unique index on kept (n)', changed],
    ['a foreign key', 'alter table kept add foreign key (n) references kept not valid', changed],
    [
      'a foreign key of another table',
      'create table was (id int references kept (id))'.replace('id int', 'id bigint'),
      changed,
    ],
    ['row security', 'alter table kept enable row level security', changed],
    ['a policy', 'create policy all_of_it on kept using (true)', changed],
    ['a trigger', 'create trigger t before insert on kept for each row execute function nothing()', changed],
    ['a rule', 'create rule r as on delete to kept do instead nothing', changed],
    ['a check', 'alter table kept add check (n > 0)', changed],
    ['a child', 'create table was () inherits (kept)', changed],
    ['dropped', 'drop table kept cascade', '42P01'],
    [
      'another in its place',
      'drop table kept cascade; create table kept (id bigint primary key, name text, price numeric, mood mood, n int)',
      changed,
    ],
    [
      'renamed, another in its place',
      'alter table kept rename to was; create table kept (id bigint primary key, name text, price numeric, mood mood, n int)',
      changed,
    ],
  ])('%s', async (_label, change, state) => {
    await make(fresh);
    const plain = await prepared('kept');
    const filtered = await prepared('kept', 'id=gt.5&price=lt.100');
    await make(change);
    expect(await plain()).toBe(state);
    expect(await filtered()).not.toBe('ran');
  });

  it('by a view that was replaced', async () => {
    await make(fresh);
    const run = await prepared('seen', 'id=gt.5');
    await make("create or replace view seen as select id, name || '!' as name from kept");
    expect(await run()).toBe(changed);
  });

  it('by a change of an embedded table', async () => {
    await make(`${fresh} create table was (id int primary key, kept bigint references kept)`);
    const run = await prepared('kept', 'select=id,was(id)');
    await make('alter table was add more int');
    expect(await run()).toBe(changed);
  });

  it('by changed attributes of a composite type, for which PostgreSQL makes no new plan', async () => {
    await make(
      `${fresh} create type stamp as (at timestamptz); create table was (id int primary key, kept bigint references kept, s stamp)`,
    );
    const run = await prepared('kept', 'select=id,was(s)');
    await make('alter type stamp add attribute note text');
    expect(await run()).toBe(changed);
    await make('drop table was; drop type stamp');
  });

  it.each([
    'analyze kept',
    'vacuum kept',
    'truncate kept',
    'insert into kept values (0)',
    "alter type mood add value if not exists 'new'",
  ])('not by %s', async (change) => {
    await make(fresh);
    const run = await prepared('kept', 'id=gt.5');
    await make(change);
    expect(await run()).toBe('ran');
  });

  it('also by a statement that waited for the change', async () => {
    await make(fresh);
    const run = await prepared('kept', 'id=gt.5');
    await make('begin; alter table kept add more int');
    const waiting = run();
    await new Promise((resolve) => setTimeout(resolve, 200));
    await make('commit');
    expect(await waiting).toBe(changed);
    expect(await run(), 'and it stays noticed').toBe(changed);
  });

  it('at no cost once the statement is planned', async () => {
    await make(fresh);
    const run = await prepared('kept', 'id=gt.5&limit=7');
    for (let round = 0; round < 20; round++) await run();
    const [[generic, custom] = []] = await other.run(
      "select generic_plans, custom_plans from pg_prepared_statements where statement like 'select t0.%limit 8'",
    );
    expect([Number(custom), Number(generic) > 20]).toEqual([5, true]);
    const text = (await session.compile('kept', 'limit=7')).text;
    const plan = await other.run(`explain ${text}`);
    expect(plan.flat().join('\n')).not.toContain('is_unchanged');
  });

  it('and the check can be called by itself', async () => {
    await make(fresh);
    const table = await get('kept');
    expect(await areUnchanged(session.ask, [table])).toBe(true);
    await make('alter table kept add more int');
    expect(await areUnchanged(session.ask, [table])).toBe(false);
    await make('drop table kept cascade');
    expect(await areUnchanged(session.ask, [table])).toBe(false);
  });
});

it('the schema of the service is closed except for its functions', async () => {
  await expect(make('select * from rowhouse.migrations')).rejects.toMatchObject({ code: '42501' });
  await expect(make('create table rowhouse.mine (id int)')).rejects.toMatchObject({ code: '42501' });
  await expect(
    make('create or replace function rowhouse.version_of(oid) returns text language sql as $$ select 1 $$'),
  ).rejects.toMatchObject({ code: '42501' });
});
