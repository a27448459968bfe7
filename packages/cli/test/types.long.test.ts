// `rowhouse types`, checked by the compiler: the tests compile its output in strict mode, together with assertions that must
// hold and code that must be rejected.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  cleanUp,
  launch,
  newAccountKey,
  type Running,
  usedDataFolder,
} from '../../server/test/support/process.ts';

const bin = fileURLToPath(new URL('../bin/rowhouse.mjs', import.meta.url));
const tsc = path.join(
  path.dirname(createRequire(import.meta.url).resolve('typescript/package.json')),
  'bin/tsc',
);
const accountKey = newAccountKey();
let service: Running;
afterAll(cleanUp);

beforeAll(async () => {
  service = await launch({ ROWHOUSE_DATA: await usedDataFolder(), ROWHOUSE_ACCOUNT_KEY: accountKey });
});

function run(args: string[], key = accountKey) {
  const result = spawnSync(process.execPath, [bin, 'types', ...args], {
    encoding: 'utf8',
    maxBuffer: 1 << 28,
    env: { ...process.env, NO_COLOR: '1', ROWHOUSE_URL: service.url, ROWHOUSE_API_KEY: key },
  });
  expect(result.stderr).not.toContain('    at ');
  return { status: result.status, out: result.stdout, err: result.stderr };
}

/** Returns the printed types, and expects success. */
function types(slug: string, ...args: string[]): string {
  const { status, out, err } = run([slug, ...args]);
  expect([status, err]).toEqual([0, '']);
  return out;
}

async function project(slug: string, ...statements: string[]): Promise<string> {
  const { body } = await service.call('POST', '/projects', { body: { name: slug, slug } });
  expect(body.ok, JSON.stringify(body)).toBe(true);
  for (const query of statements) await sql(slug, query);
  return body.api_key;
}

async function sql(slug: string, query: string, params: unknown[] = []): Promise<Record<string, unknown>[]> {
  const { body } = await service.call('POST', `/projects/${slug}/query`, { body: { query, params } });
  expect(body.ok, `${query}: ${JSON.stringify(body)}`).toBe(true);
  return body.rows;
}

function newFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-types-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** The messages of the strict compiler about the types and these assertions: empty if all hold. */
function compile(database: string, assertions = ''): string {
  const folder = newFolder();
  writeFileSync(path.join(folder, 'database.ts'), database);
  writeFileSync(
    path.join(folder, 'assertions.ts'),
    `import type { Database, Json } from './database.ts';
     type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
     /** As one object type, even if it is an intersection. */
     type Flat<T> = { [K in keyof T]: T[K] };
     export function holds<T extends true>(): T | void {}
     export type Public = Database extends { public: infer P } ? P : never;
     export type Kept = [Json, Same<1, 1>, Flat<{}>];
     ${assertions}`,
  );
  const options = {
    strict: true,
    noEmit: true,
    target: 'es2023',
    module: 'nodenext',
    types: [],
    allowImportingTsExtensions: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    isolatedModules: true,
  };
  writeFileSync(
    path.join(folder, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: options, include: ['*.ts'] }),
  );
  return spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8' }).stdout;
}

describe('generated types of every kind of column', () => {
  beforeAll(async () => {
    await project(
      'kinds',
      "create type mood as enum ('sad', 'so so', 'it''s \"fine\"')",
      'create domain small as int not null check (value < 1000)',
      "create domain label as text default 'none'",
      'create domain grid as int[][]',
      'create domain count as int8',
      'create type pair as (a int8, "b c" text)',
      'create type nest as (p pair, ps pair[], at timestamptz, m mood[], d small, j jsonb)',
      'create type span as range (subtype = float8)',
      'create extension hstore',
      'create schema shop',
      "create type shop.size as enum ('s', 'm')",
      `create table kinds (
         i2 int2 not null, i4 int4 not null, i8 int8 not null, n numeric not null, f4 float4 not null, f8 float8 not null,
         b bool not null, t text not null, v varchar(5) not null, c char(3) not null, bytes bytea not null, u uuid not null,
         d date not null, tm time not null, ts timestamp not null, tz timestamptz not null, iv interval not null,
         ip inet not null, m macaddr not null, cash money not null, bits bit(3) not null, pt point not null,
         r int4range not null, mr int4multirange not null, tv tsvector not null, x xml not null, o oid not null,
         j json not null, jb jsonb not null, mood mood not null, moods mood[] not null, small small, label label not null,
         grid grid not null, i4s int[] not null, cube text[][][] not null, jbs jsonb[] not null, big int8[] not null,
         pair pair not null, nest nest not null, pairs pair[] not null, span span not null, h hstore not null,
         size shop.size not null, nothing text, counts count[] not null)`,
    );
  });

  /** The type of each column in JSON responses. */
  const expected = (big: string, decimal: string, inside: string) => `{
    i2: number; i4: number; i8: ${big}; n: ${decimal}; f4: number; f8: number; b: boolean; t: string; v: string; c: string;
    bytes: string; u: string; d: string; tm: string; ts: string; tz: string; iv: string; ip: string; m: string;
    cash: string; bits: string; pt: string; r: string; mr: string; tv: string; x: string; o: string; j: Json; jb: Json;
    mood: Mood; moods: Mood[]; small: number; label: string; grid: number[][]; i4s: number[]; cube: string[][][];
    jbs: Json[]; big: ${big}[]; pair: Pair; nest: Nest; pairs: Pair[]; span: string; h: Record<string, string | null>;
    size: 's' | 'm'; nothing: string | null; counts: ${inside}[] }`;
  const named = (inside: string) => `
    type Mood = 'sad' | 'so so' | 'it\\'s "fine"';
    type Pair = { a: ${inside} | null; 'b c': string | null };
    type Nest = { p: Pair | null; ps: Pair[] | null; at: string | null; m: Mood[] | null; d: number | null; j: Json | null };`;

  it.each([
    ['number', 'number', 'number', 'number'],
    ['string', 'string', 'string', 'string'],
    ['bigint', 'bigint', 'string', 'string'],
  ])('compile with --numbers %s', (numbers, big, decimal, inside) => {
    const text = types('kinds', '--numbers', numbers);
    const problems = compile(
      text,
      `${named(inside)}
       type Row = Public['Tables']['kinds']['Row'];
       type Expected = ${expected(big, decimal, inside)};
       holds<Same<keyof Row, keyof Expected>>();
       holds<Same<{ [K in keyof Row]: Same<Row[K], Expected[K]> }, { [K in keyof Row]: true }>>();
       holds<Same<Public['Enums'], { mood: Mood }>>();
       holds<Same<Public['CompositeTypes'], { nest: Nest; pair: Pair }>>();
       holds<Same<Database['shop']['Enums']['size'], 's' | 'm'>>();
       holds<Same<bigint extends Json ? true : false, ${numbers === 'bigint'}>>();`,
    );
    expect(problems).toBe('');
  });

  it('a row from the service has that type', async () => {
    await sql(
      'kinds',
      `insert into kinds select 1, 2, 3, 4.5, 1.5, 2.5, true, 't', 'v', 'c', '\\x00', gen_random_uuid(), now(), now()::time,
         now(), now(), '1 day', '::1', '08:00:2b:01:02:03', 1, '101', '(1,2)', '[1,2)', '{[1,2)}', 'a b', '<a/>', 1,
         '{"a": [1]}', '[null]', 'sad', '{sad,"so so"}', 5, 'l', '{{1,2},{3,4}}', '{1}', '{{{a}}}',
         array['{}'::jsonb], '{9}', row(1, 'x')::pair,
         row(row(1, 'y')::pair, array[row(2, 'z')::pair], now(), '{sad}', 5, '1')::nest,
         array[row(3, null)::pair], '[1.5,2]', 'a=>1,b=>NULL', 's', null, '{7}'`,
    );
    const [row] = await sql('kinds', 'select * from kinds');
    const text = types('kinds');
    const literal = JSON.stringify(row);
    expect(compile(text, `export const row: Public['Tables']['kinds']['Row'] = ${literal};`)).toBe('');
    const wrong = JSON.stringify({ ...row, grid: [1] });
    expect(compile(text, `export const row: Public['Tables']['kinds']['Row'] = ${wrong};`)).toContain(
      'TS2322',
    );
  });

  it('a schema that was not chosen appears only with the types that others use', { tags: 'long' }, () => {
    const text = types('kinds', '--schema', 'public');
    expect(compile(text, "holds<Same<keyof Database, 'public' | 'shop'>>();")).toBe('');
    expect(compile(types('kinds', '--schema', 'shop'), "holds<Same<keyof Database, 'shop'>>();")).toBe('');
  });

  it('gives the same text each time', { tags: 'long' }, () => {
    const text = types('kinds');
    expect(types('kinds')).toBe(text);
    expect(text).toMatch(/^\/\/ Types of the project kinds, made by `rowhouse types`/);
    expect(types('kinds', '--schema', 'shop', '--schema', 'public')).toBe(text);
  });
});

it('Insert and Update hold the columns that can be written', async () => {
  await project(
    'writing',
    "create domain state as text not null default 'new'",
    `create table items (
       id int generated always as identity primary key, code int generated by default as identity, serial serial,
       name text not null, note text, price numeric not null default 1, total numeric generated always as (price * 2) stored,
       twice numeric generated always as (price * 2), state state, "when" timestamptz not null default now())`,
    'create table bare (id int generated always as identity)',
    'create table nothing ()',
    'create table late (a text)',
    'alter table late add constraint a_there not null a not valid',
    'create view cheap as select id, name, price from items where price < 10',
    'create view counted as select name, count(*) as n from items group by name',
    'create materialized view kept as select name from items',
    'create view by_trigger as select name, count(*) as n from items group by name',
    'create function put() returns trigger language plpgsql as $$ begin return null; end $$',
    'create trigger t instead of insert on by_trigger for each row execute function put()',
  );
  const text = types('writing');
  const problems = compile(
    text,
    `type Items = Public['Tables']['items'];
     holds<Same<Items['Row'], { id: number; code: number; serial: number; name: string; note: string | null; price: number;
       total: number | null; twice: number | null; state: string; when: string }>>();
     holds<Same<Items['Insert'], { code?: number; serial?: number; name: string; note?: string | null; price?: number;
       state?: string; when?: string }>>();
     holds<Same<Items['Update'], { code?: number; serial?: number; name?: string; note?: string | null; price?: number;
       state?: string; when?: string }>>();
     export const good: Items['Insert'] = { name: 'tea' };
     // @ts-expect-error: name is missing
     export const short: Items['Insert'] = { price: 1 };
     // @ts-expect-error: PostgreSQL generates id
     export const counted: Items['Insert'] = { name: 'tea', id: 1 };
     // @ts-expect-error: PostgreSQL computes total
     export const worked: Items['Update'] = { total: 1 };
     // @ts-expect-error: name is required
     export const empty: Items['Update'] = { name: null };
     export const none: Public['Tables']['bare']['Insert'] = {};
     // @ts-expect-error: no column accepts a value
     export const some: Public['Tables']['bare']['Insert'] = { id: 1 };
     holds<Same<keyof Public['Tables']['nothing']['Row'], never>>();
     holds<Same<Public['Tables']['late'], { Row: { a: string | null }; Insert: { a: string }; Update: { a?: string } }>>();
     holds<Same<Public['Views']['cheap'], {
       Row: { id: number | null; name: string | null; price: number | null };
       Insert: { id?: number | null; name?: string | null; price?: number | null };
       Update: { id?: number | null; name?: string | null; price?: number | null } }>>();
     holds<Same<Public['Views']['counted'], { Row: { n: number | null; name: string | null } }>>();
     holds<Same<Public['Views']['kept'], { Row: { name: string | null } }>>();
     holds<Same<Public['Views']['by_trigger'], { Row: { n: number | null; name: string | null };
       Insert: { n?: number | null; name?: string | null } }>>();
     holds<Same<keyof Public['Functions'], never>>();`,
  );
  expect(problems).toBe('');
});

it('cover partitioned tables, inheritance and dropped columns', { tags: 'long' }, async () => {
  await project(
    'parts',
    'create table visits (at date not null, gone int, page text) partition by range (at)',
    "create table visits_2026 partition of visits for values from ('2026-01-01') to ('2027-01-01')",
    'alter table visits drop column gone',
    'create table base (id int not null)',
    'create table special (extra int) inherits (base)',
  );
  const problems = compile(
    types('parts'),
    `holds<Same<keyof Public['Tables'], 'visits' | 'base' | 'special'>>();
     holds<Same<Public['Tables']['visits']['Row'], { at: string; page: string | null }>>();
     holds<Same<Public['Tables']['special']['Insert'], { id: number; extra?: number | null }>>();`,
  );
  expect(problems).toBe('');
});

it('cover functions', { tags: 'long' }, async () => {
  await project(
    'calls',
    'create table teas (id int primary key, name text)',
    'create view v as select * from teas',
    "create type mood as enum ('a', 'b')",
    'create type pair as (x int, y int)',
    'create function plain(a int, b text default null) returns int8 language sql as $$ select 1::int8 $$',
    'create function strictly(a int) returns text strict language sql as $$ select 1::text $$',
    'create function unnamed(int, "$1" text) returns bool language sql as $$ select true $$',
    'create function nothing() returns void language plpgsql as $$ begin end $$',
    "create function nothing_sql() returns void language sql as $$ select 'x' where false $$",
    'create function many() returns setof int language sql as $$ select 1 $$',
    'create function whole() returns setof teas language sql as $$ select * from teas $$',
    'create function one() returns teas language sql as $$ select * from teas $$',
    'create function viewed() returns setof v language sql as $$ select * from v $$',
    'create function rows(min int) returns table (id int, mood mood) language sql as $$ select 1, null::mood $$',
    'create function column_of_one() returns table (id int) language sql as $$ select 1 $$',
    'create function outs(out a int, out b text) language sql as $$ select 1, null $$',
    'create function out_one(inout a int) language sql as $$ select a $$',
    'create function variadic_one(variadic list int[]) returns mood[] language sql as $$ select null::mood[] $$',
    'create function any_one(a anyelement, b anyarray) returns anyelement language sql as $$ select a $$',
    'create function loose() returns setof record language sql as $$ select 1, 2 $$',
    'create function over(a int) returns int language sql as $$ select 1 $$',
    'create function over(a text) returns pair language sql as $$ select null::pair $$',
    'create procedure call_me() language sql as $$ select 1 $$',
    'create aggregate summed(int) (sfunc = int4pl, stype = int)',
    'create extension pg_trgm',
  );
  const problems = compile(
    types('calls'),
    `type F = Public['Functions'];
     type Teas = Public['Tables']['teas']['Row'];
     holds<Same<keyof F, 'plain' | 'strictly' | 'unnamed' | 'nothing' | 'nothing_sql' | 'many' | 'whole' | 'one' | 'viewed' |
       'rows' | 'column_of_one' | 'outs' | 'out_one' | 'variadic_one' | 'any_one' | 'loose' | 'over'>>();
     holds<Same<F['plain'], { Args: { a: number | null; b?: string | null }; Returns: number | null }>>();
     holds<Same<F['strictly'], { Args: { a: number }; Returns: string | null }>>();
     holds<Same<F['unnamed']['Args'], { $1_: number | null; $1: string | null }>>();
     holds<Same<F['nothing'], { Args: Record<string, never>; Returns: '' | null }>>();
     holds<Same<F['many']['Returns'], (number | null)[]>>();
     holds<Same<F['whole']['Returns'], Teas[]>>();
     holds<Same<F['one']['Returns'], Teas | null>>();
     holds<Same<F['viewed']['Returns'], Public['Views']['v']['Row'][]>>();
     holds<Same<F['rows'], { Args: { min: number | null }; Returns: { id: number | null; mood: 'a' | 'b' | null }[] }>>();
     holds<Same<F['column_of_one']['Returns'], { id: number | null }[]>>();
     holds<Same<F['outs'], { Args: Record<string, never>; Returns: { a: number | null; b: string | null } }>>();
     holds<Same<F['out_one'], { Args: { a: number | null }; Returns: number | null }>>();
     holds<Same<F['variadic_one'], { Args: { list: number[] | null }; Returns: ('a' | 'b')[] | null }>>();
     holds<Same<F['any_one']['Returns'], unknown>>();
     holds<Same<F['loose']['Returns'], (Record<string, unknown> | null)[]>>();
     holds<Same<F['over'], { Args: { a: number | null }; Returns: number | null } |
       { Args: { a: string | null }; Returns: { x: number | null; y: number | null } | null }>>();`,
  );
  expect(problems).toBe('');
  const answers = await sql('calls', 'select nothing(), nothing_sql(), one(), outs.* from outs()');
  expect(answers).toEqual([{ nothing: '', nothing_sql: null, one: null, a: 1, b: null }]);
});

it('hostile names and comments cannot become code', async () => {
  const names = [
    '__proto__',
    'constructor',
    'toString',
    'a"b',
    "a'b",
    'a`$b',
    'a\\',
    'a\nb',
    '*/ evil',
    '// evil',
    '"]: never; } //',
    'é😀日',
    'a\u2028b',
    '\u001b[31mred',
    '\u202eabc',
    '1st',
    'class',
    ' ',
    'readonly x',
    '[key: string]',
    'x?',
  ];
  const id = (name: string) => `"${name.replaceAll('"', '""')}"`;
  const text = (name: string) =>
    `U&'${[...name].map((c) => `\\+${c.codePointAt(0)?.toString(16).padStart(6, '0')}`).join('')}'`;
  const evil = 'first */ export const evil = 1; /*\n@ts-expect-error\r\n*/\u2028 @ts-ignore';
  await project('hostile', ...names.map((name) => `create schema ${id(`s${name}`)}`));
  for (const name of names) {
    await sql(
      'hostile',
      `do $do$ begin execute 'create type ${id(name).replaceAll("'", "''")} as enum (' || ${names
        .map((label) => `quote_literal(${text(label)})`)
        .join(" || ', ' || ")} || ')'; end $do$`,
    );
    const columns = names.map((column) => `${id(column)} ${id(name)}`).join(', ');
    await sql('hostile', `create table ${id(`t${name}`)} (${columns})`);
    await sql(
      'hostile',
      `create function ${id(name)}(${columns}) returns table (${names
        .map((column) => `${id(`o${column}`)} ${id(`t${name}`)}`)
        .join(', ')}) language plpgsql as $$ begin end $$`,
    );
    await sql('hostile', `comment on table ${id(`t${name}`)} is ${text(evil)}`);
    await sql('hostile', `comment on column ${id(`t${name}`)}.${id(name)} is ${text('@ts-expect-error')}`);
    await sql('hostile', `comment on type ${id(name)} is ${text('/')}`);
  }
  await sql('hostile', `comment on schema public is ${text(`${evil}*`)}`);
  const printed = types('hostile');
  expect(printed).not.toMatch(/[^\P{C}\n]|[\p{Zl}\p{Zp}]/u);
  const keys = names.map((name) => JSON.stringify(name)).join(' | ');
  const prefixed = (prefix: string) => names.map((name) => JSON.stringify(prefix + name)).join(' | ');
  const problems = compile(
    printed,
    `type Names = ${keys};
     holds<Same<keyof Database, 'public' | ${prefixed('s')}>>();
     holds<Same<keyof Public['Tables'], ${prefixed('t')}>>();
     holds<Same<keyof Public['Enums'], Names>>();
     holds<Same<Public['Enums'][Names], Names>>();
     holds<Same<keyof Public['Functions'], Names>>();
     holds<Same<keyof Public['Tables']['t__proto__']['Row'], Names>>();
     holds<Same<Public['Tables']['t__proto__']['Row']['__proto__'], Names | null>>();
     holds<Same<keyof Public['Functions']['__proto__']['Args'], Names>>();
     // @ts-expect-error: the name does not exist
     import { evil } from './database.ts';
     export { evil };`,
  );
  expect(problems).toBe('');
});

it('handles nested types that use each other many times, and many tables', { tags: 'long' }, async () => {
  await project(
    'large',
    'create type t0 as (a int)',
    `do $$ begin for n in 1..9 loop
       execute format('create type t%s as (a t%s, b t%s, c t%s[])', n, n - 1, n - 1, n - 1);
     end loop; end $$`,
    `do $$ begin for n in 1..500 loop
       execute format('create table "table %s" (id int8 primary key, name text not null, at timestamptz default now(), %s)', n,
         (select string_agg(format('c%s text[]', c), ', ') from generate_series(1, 20) as c));
     end loop; end $$`,
    'create table deep (t t9)',
  );
  const text = types('large');
  expect(text.match(/^ {6}"table \d+": \{$/gm)?.length).toBe(500);
  const problems = compile(
    text,
    `type Deep = NonNullable<NonNullable<NonNullable<Public['Tables']['deep']['Row']['t']>['b']>['c']>[0];
     holds<Same<Deep, Public['CompositeTypes']['t7']>>();
     holds<Same<Public['Tables']['table 500']['Row']['c20'], string[] | null>>();`,
  );
  expect(problems).toBe('');
});

describe('generated types of an empty project', () => {
  let key = '';
  beforeAll(async () => {
    key = await project('empty');
  });

  it('has an empty schema', () => {
    const problems = compile(
      types('empty'),
      `holds<Same<keyof Database, 'public'>>();
       holds<Same<keyof Public, 'Tables' | 'Views' | 'Enums' | 'CompositeTypes' | 'Functions'>>();
       holds<Same<keyof Public['Tables'], never>>();`,
    );
    expect(problems).toBe('');
  });

  it('includes auth on request: users can be read but not written', () => {
    const problems = compile(
      types('empty', '--schema', 'auth'),
      `type Users = Database['auth']['Tables']['users'];
       holds<Same<keyof Database, 'auth'>>();
       holds<Same<keyof Database['auth']['Tables'], 'users'>>();
       holds<Same<Users['Row']['email'], string>>();
       holds<Same<Users['Insert'], never>>();
       holds<Same<Database['auth']['Functions']['uid'], { Args: Record<string, never>; Returns: string | null }>>();`,
    );
    expect(problems).toBe('');
  });

  it.each(['nowhere', 'rowhouse', 'pg_catalog', 'information_schema', '', '__proto__', "x'; drop"])(
    'rejects the schema "%s"',
    (schema) => {
      const { status, out, err } = run(['empty', '--schema', schema]);
      expect([status, out]).toEqual([1, '']);
      expect(err).toContain(`no schema "${schema}"`);
      expect(err).toContain('Available schemas: auth, public.');
    },
  );

  it('writes to a file, or prints JSON', () => {
    const folder = newFolder();
    const file = path.join(folder, 'database.ts');
    const written = run(['empty', '--out', file]);
    expect([written.status, written.out, written.err]).toEqual([0, '', `Written to ${file}.\n`]);
    expect(readFileSync(file, 'utf8')).toBe(types('empty'));
    expect(JSON.parse(run(['empty', '--json']).out)).toEqual({ ok: true, types: types('empty') });
    const refused = run(['empty', '--out', path.join(folder, 'no/such/folder.ts')]);
    expect([refused.status, refused.err]).toEqual([1, expect.stringContaining('Cannot write')]);
  });

  it('reports an unknown project and an invalid option', () => {
    expect(run(['no-such-project']).err).toContain('project_not_found');
    expect(run(['empty', '--numbers', 'float']).err).toContain('number, string, bigint');
    expect(run(['empty'], 'rh_proj_typo').status).toBe(4);
  });

  it('works with a key that has only query:read', async () => {
    const { body } = await service.call('POST', '/projects/empty/keys', {
      body: { name: 'types', scopes: ['query:read'] },
    });
    expect(run(['empty'], body.api_key)).toEqual({ status: 0, out: types('empty'), err: '' });
    expect(run(['empty'], key).out).toBe(types('empty'));
  });

  it('compiles after schema public was dropped', { tags: 'long' }, async () => {
    await project('bare', 'drop schema public');
    expect(compile(types('bare'), 'holds<Same<keyof Database, never>>();')).toBe('');
  });
});

it('embedded rows have their types in the client, and come as they are typed', async () => {
  const key = await project(
    'garden',
    'create table species (id int primary key, latin text not null)',
    'create table plants (id int primary key, species_id int not null references species, parent_id int references plants)',
    'create table beds (id int primary key, name text)',
    'create table plant_beds (plant_id int references plants, bed_id int references beds, primary key (plant_id, bed_id))',
    'create table labels (plant_id int primary key references plants, text text)',
    "insert into species values (1, 'Camellia sinensis')",
    'insert into plants values (1, 1, null)',
    "insert into beds values (1, 'North')",
    'insert into plant_beds values (1, 1)',
  );
  const client = fileURLToPath(new URL('../../client/src/index.ts', import.meta.url));
  const columns = ["'id'", "'species(latin)'", "'beds(name)'", "'labels(text)'", "'parent_id(id)'"].join(
    ', ',
  );
  expect(
    compile(
      types('garden'),
      `import { createClient } from ${JSON.stringify(client)};
       const db = createClient<Database>({ apiKey: 'x', project: 'y' });
       export async function embedded() {
         const row = await db.table('plants').select(${columns}).first();
         holds<Same<typeof row, { id: number; species: { latin: string }; beds: { name: string | null }[];
           labels: { text: string | null } | null; parent_id: { id: number } | null } | null>>();
         const back = await db.table('species').select('latin', 'plants(id)').first();
         holds<Same<typeof back, { latin: string; plants: { id: number }[] } | null>>();
         // Both a child and a parent: the service wants to know which.
         const unclear = await db.table('plants').select('plants(id)').first();
         holds<Same<typeof unclear, Record<string, unknown> | null>>();
       }`,
    ),
  ).toBe('');
  const select = 'id,species(latin),beds(name),labels(text),parent_id(id)';
  const { body } = await service.call('GET', `/projects/garden/tables/plants?select=${select}`, { key });
  expect(body.rows).toEqual([
    {
      id: 1,
      species: { latin: 'Camellia sinensis' },
      beds: [{ name: 'North' }],
      labels: null,
      parent_id: null,
    },
  ]);
});
