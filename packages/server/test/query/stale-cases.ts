// Changes of definitions, each with a statement that means something else after it, or that fails then.

export type Case = {
  first: string[];
  query: string;
  params?: unknown[];
  change: string[];
  /** What is asked afterwards, if not the same. */
  afterwards?: unknown[];
  /** PostgreSQL itself notices nothing: what was parsed before goes on with its old meaning. */
  isSilent?: true;
};

/** `T` stands for a name of its own. */
export const cases: Record<string, Case> = {
  'a wider type': {
    first: ['create table T (id int)', 'insert into T values (1)'],
    query: 'select * from T where id = $1',
    params: [1],
    change: ['alter table T alter id type bigint'],
    afterwards: [3_000_000_000],
  },
  'a narrower type': {
    first: ['create table T (id bigint)', 'insert into T values (1)'],
    query: 'select count(*)::int as n from T where id = $1',
    params: [1],
    change: ['alter table T alter id type int'],
    afterwards: [3_000_000_000],
    isSilent: true,
  },
  'another type': {
    first: ['create table T (id uuid)'],
    query: 'select id from T where id = $1',
    params: ['5a9d1c3e-0c5b-4c3f-9f53-5a1c1e0d8a11'],
    change: ['alter table T alter id type bigint using 7'],
    afterwards: [7],
  },
  'text in place of a number': {
    first: ['create table T (id int)'],
    query: 'insert into T values ($1) returning id',
    params: [1],
    change: ['alter table T alter id type text'],
    afterwards: ['abc'],
  },
  'a number in place of text': {
    first: ['create table T (id text)'],
    query: 'select count(*)::int as n from T where id = $1',
    params: ['1'],
    change: ['alter table T alter id type int using 1'],
    afterwards: ['1'],
  },
  'an offset for a time': {
    first: ['create table T (at timestamp)', "insert into T values ('2026-01-01 10:00')"],
    query: 'select count(*)::int as n from T where at = $1',
    params: ['2026-01-01 10:00'],
    change: ["alter table T alter at type timestamptz using at at time zone 'UTC'"],
    afterwards: ['2026-01-01T12:00:00+02:00'],
    isSilent: true,
  },
  'a time for a date': {
    first: ['create table T (at date)', "insert into T values ('2026-01-01')"],
    query: 'select count(*)::int as n from T where at = $1',
    params: ['2026-01-01'],
    change: ['alter table T alter at type timestamp'],
    afterwards: ['2026-01-01 12:00'],
    isSilent: true,
  },
  'more digits': {
    first: ['create table T (x float4)'],
    query: 'insert into T values ($1) returning x',
    params: [0.5],
    change: ['alter table T alter x type float8'],
    afterwards: [0.1],
    isSilent: true,
  },
  'a longer text': {
    first: ['create table T (v varchar(3))'],
    query: 'insert into T values ($1) returning v',
    params: ['abc'],
    change: ['alter table T alter v type varchar(6)'],
    afterwards: ['abcdef'],
  },
  'an array of another type': {
    first: ['create table T (id int)'],
    query: 'select count(*)::int as n from T where id = any ($1)',
    params: [[1]],
    change: ['alter table T alter id type bigint'],
    afterwards: [[3_000_000_000]],
  },
  'JSON in place of an array': {
    first: ['create table T (v int[])'],
    query: 'insert into T values ($1) returning v',
    params: [[1, 2]],
    change: ['alter table T alter v type jsonb using to_jsonb(v)'],
    afterwards: [[1, 2]],
  },
  'text in place of an array': {
    first: ['create table T (v int[])'],
    query: 'insert into T values ($1) returning v',
    params: [[1, 2]],
    change: ['alter table T alter v type text using v::text'],
    afterwards: [[1, 2]],
    isSilent: true,
  },
  'another column': {
    first: ['create table T (a int)', 'insert into T values (1)'],
    query: 'select * from T',
    change: ["alter table T add b text default 'x'"],
  },
  'a column less': {
    first: ['create table T (a int, b int)', 'insert into T values (1, 2)'],
    query: 'select * from T',
    change: ['alter table T drop b'],
  },
  'another name of a column': {
    first: ['create table T (a int)', 'insert into T values (1)'],
    query: 'select * from T',
    change: ['alter table T rename a to b'],
  },
  'a renamed column': {
    first: ['create table T (a int)', 'insert into T values (1)'],
    query: 'select a from T where a = $1',
    params: [1],
    change: ['alter table T rename a to b'],
  },
  'another table of its name': {
    first: ['create table T (a int)', "create table T_new as select 'x'::text as a"],
    query: 'select a from T where a = $1',
    params: [1],
    change: ['alter table T rename to T_old', 'alter table T_new rename to T'],
    afterwards: ['x'],
  },
  'a table made anew': {
    first: ['create table T (a int)'],
    query: 'insert into T values ($1) returning *',
    params: [1],
    change: ['drop table T', 'create table T (a date, b int default 5)'],
    afterwards: ['2026-01-01'],
  },
  'no table': {
    first: ['create table T (a int)'],
    query: 'select a from T where a = $1',
    params: [1],
    change: ['drop table T'],
  },
  'a view of something else': {
    first: ["create view T as select 1 as a, 'x'::text as b"],
    query: 'select * from T where a = $1',
    params: [1],
    change: ["create or replace view T as select 2 as a, 'y'::text as b, 3 as c"],
    afterwards: [2],
  },
  'a materialized view made anew': {
    first: ['create materialized view T as select 1 as a'],
    query: 'select * from T',
    change: ['drop materialized view T', "create materialized view T as select 'x'::text as a"],
  },
  'another body of a function': {
    first: ["create function T(int) returns int language sql as 'select $1'"],
    query: 'select T($1) as n',
    params: [1],
    change: ["create or replace function T(int) returns int language sql as 'select $1 + 1'"],
  },
  'another result of a function': {
    first: ["create function T(int) returns int language sql as 'select $1'"],
    query: 'select T($1) as n',
    params: [1],
    change: ['drop function T(int)', "create function T(int) returns text language sql as $$ select 'x' $$"],
  },
  'a function that fits better': {
    first: ["create function T(int) returns text language sql as $$ select 'number' $$"],
    query: 'select T($1) as n',
    params: ['1'],
    change: ["create function T(text) returns text language sql as $$ select 'text' $$"],
    isSilent: true,
  },
  'a table that hides another': {
    first: [
      'create table T (a int)',
      'create schema T_s',
      'create function T_f() returns bigint language sql set search_path = T_s, public as $$ select count(*) from T $$',
    ],
    query: 'select T_f() as n',
    change: ['create table T_s.T as select 1 as a'],
  },
  ...Object.fromEntries(
    [
      'create table T as select 1 as a',
      'select 1 as a into T',
      'create materialized view T as select 1 as a',
      'explain analyze create table T as select 1 as a',
    ].map((statement): [string, Case] => [
      // A call with a literal is a cast if there is such a type, and each table has one for its arrays.
      `a type called like a function, by ${statement}`,
      {
        first: ["create function _T(text) returns text language sql as 'select $1'"],
        query: "select _T('x') as n",
        change: [statement],
        isSilent: true,
      },
    ]),
  ),
  'a new value of an enum': {
    first: ["create type T_e as enum ('a')", 'create table T (v T_e)'],
    query: 'insert into T values ($1) returning v',
    params: ['a'],
    change: ["alter type T_e add value 'b'"],
    afterwards: ['b'],
  },
  'a renamed value of an enum': {
    first: ["create type T_e as enum ('a')", 'create table T (v T_e)', "insert into T values ('a')"],
    query: 'select v from T',
    change: ["alter type T_e rename value 'a' to 'z'"],
  },
  'an enum made anew': {
    first: ["create type T_e as enum ('a')", 'create table T (v T_e)'],
    query: 'select count(*)::int as n from T where v = $1',
    params: ['a'],
    change: ['drop type T_e cascade', "create type T_e as enum ('b')", 'alter table T add v T_e'],
    afterwards: ['b'],
  },
  'a renamed type': {
    first: ["create type T_e as enum ('a')", 'create table T (v T_e)'],
    query: 'select v from T where v = $1',
    params: ['a'],
    change: ['alter type T_e rename to T_f'],
    isSilent: true,
  },
  'a constraint of a domain': {
    first: ['create domain T_d as int', 'create table T (v T_d)'],
    query: 'insert into T values ($1) returning v',
    params: [1],
    change: ['alter domain T_d add check (value > 5) not valid'],
  },
  'no domain': {
    first: ['create domain T_d as int', 'create table T (v T_d)'],
    query: 'insert into T values ($1) returning v',
    params: [1],
    change: ['alter table T alter v type bigint', 'drop domain T_d'],
    afterwards: [3_000_000_000],
  },
  'a field of a composite': {
    first: ['create type T_c as (a int)', 'create table T (v T_c)', 'insert into T values (row(1))'],
    query: 'select v from T',
    change: ['alter type T_c add attribute b text'],
  },
  'a renamed field of a composite': {
    first: [
      'create type T_c as (a int)',
      'create table T (v T_c[])',
      'insert into T values (array[row(1)::T_c])',
    ],
    query: 'select v from T',
    change: ['alter type T_c rename attribute a to z'],
  },
  'row security': {
    first: ['create table T (a int)', 'insert into T values (1)'],
    query: 'select a from T',
    change: ['alter table T enable row level security, force row level security'],
  },
  'a trigger': {
    first: [
      'create table T (a int)',
      'create function T_t() returns trigger language plpgsql as $$ begin new.a := 9; return new; end $$',
    ],
    query: 'insert into T values ($1) returning a',
    params: [1],
    change: ['create trigger T_t before insert on T for each row execute function T_t()'],
  },
  'a rule': {
    first: ['create table T (a int)'],
    query: 'insert into T values ($1)',
    params: [1],
    change: ['create rule T_r as on insert to T do instead nothing'],
  },
  'another default': {
    first: ['create table T (a int, b int default 1)'],
    query: 'insert into T (a) values ($1) returning b',
    params: [1],
    change: ['alter table T alter b set default 2'],
  },
  'a generated column': {
    first: ['create table T (a int, b int)'],
    query: 'insert into T (a) values ($1) returning *',
    params: [1],
    change: ['alter table T drop b', 'alter table T add b int generated always as (a * 2) stored'],
  },
  'a check': {
    first: ['create table T (a int)'],
    query: 'insert into T values ($1) returning a',
    params: [1],
    change: ['alter table T add check (a > 5) not valid'],
  },
  'no key': {
    first: ['create table T (a int primary key)'],
    query: 'insert into T values ($1) on conflict (a) do nothing returning a',
    params: [1],
    change: ['alter table T drop constraint T_pkey'],
  },
  'a child table': {
    first: ['create table T (a int)', 'insert into T values (1)'],
    query: 'select count(*)::int as n from T',
    change: ['create table T_child (b int) inherits (T)', 'insert into T_child values (1, 1)'],
  },
  'a partition': {
    first: [
      'create table T (a int) partition by list (a)',
      'create table T_1 partition of T for values in (1)',
    ],
    query: 'insert into T values ($1) returning a',
    params: [1],
    change: ['create table T_2 partition of T for values in (2)'],
    afterwards: [2],
  },
  'another index': {
    first: ['create table T (a int)', 'insert into T select generate_series(1, 100)'],
    query: 'select a from T where a = $1',
    params: [50],
    change: ['create index on T (a)'],
  },
};
