// rowhouse migrate diff: the SQL that it prints makes the schemas the same, there and back.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { useService } from './live.ts';

const live = useService();

const rich = `create schema shop;
create type shop.mood as enum ('sad', 'ok');
create domain shop.short as text default 'x' not null check (length(value) < 10);
create type shop.pair as (a int, b text);
create sequence shop.counter start 5;
create table authors (id bigint generated always as identity primary key, name text not null unique,
  mood shop.mood default 'ok', "Odd name" int);
create function shop.twice(n int) returns int language sql immutable begin atomic select n * 2; end;
create table books (id serial primary key, author_id bigint references authors on delete cascade, title shop.short,
  price numeric(10,2) check (price > 0), n int default shop.twice(2), total numeric generated always as (price * 2) stored);
create index books_title on books (lower(title::text)) where price > 1;
create function shop.touch() returns trigger language plpgsql as $$ begin new.n = 1; return new; end $$;
create trigger touch before update on books for each row execute function shop.touch();
create view shop.cheap with (security_invoker = true) as select * from books where price < 10;
create view shop.cheaper as select id from shop.cheap;
create materialized view shop.counts as select count(*) from books;
alter table books enable row level security;
create policy own on books for select to authenticated using (author_id = shop.twice(1));
grant select on books to anon;
revoke delete on authors from authenticated;
revoke execute on function shop.twice from public;
comment on table books is 'It''s books';
comment on column books.title is 'The title';
create table events (at date not null, n int) partition by range (at);
create table events_2026 partition of events for values from ('2026-01-01') to ('2027-01-01');
create unique index on events (at);
insert into authors (name) values ('Ann');`;

const changes = `alter type shop.mood add value 'great' after 'ok';
alter table authors drop column "Odd name", add column born date not null default '2000-01-01', alter column name type varchar(100);
alter table books alter column price set not null, alter column n drop default;
drop index books_title;
create or replace function shop.twice(n int) returns int language sql immutable begin atomic select n * 3; end;
drop view shop.cheaper; drop view shop.cheap; create view shop.cheap as select id, price from books;
drop policy own on books; create policy own on books for select to authenticated using (author_id = 2);
drop table events;
revoke select on books from anon;
comment on table books is null;
create table extra (id uuid primary key default gen_random_uuid());`;

it('the printed SQL turns one schema into the other, and back', { timeout: 300_000 }, () => {
  for (const slug of ['target', 'wanted', 'empty']) live.json('projects', 'create', slug, '--slug', slug);
  const diff = (against: string) => live.run(['migrate', 'diff', '-p', 'target', '--against', against]);
  const sql = (slug: string, input: string) => {
    const { status, err } = live.run(['sql', '-p', slug, '--file', '-'], { input });
    expect([status, err]).toEqual([0, '']);
  };
  const become = (against: string) => {
    sql('target', diff(against).out);
    expect(diff(against)).toEqual({ status: 0, out: '', err: 'The schemas are the same.\n' });
  };
  sql('wanted', rich);
  become('wanted');
  sql('target', "insert into authors (name) values ('Ann')");
  sql('wanted', changes);
  const changed = diff('wanted').out;
  expect(changed).toContain("add column born date default '2000-01-01'::date not null;");
  expect(changed).toContain("alter type shop.mood add value 'great' after 'ok';");
  become('wanted');
  become('empty');

  // What the migrations lack.
  mkdirSync(path.join(live.folder, 'work', 'migrations'));
  writeFileSync(path.join(live.folder, 'work', 'migrations', '1_extra.sql'), 'create table teas (id int);');
  sql('target', 'create table teas (id int); create table mugs (id int);');
  const lacking = live.run(['migrate', 'diff', '-p', 'target', '--save', 'mugs', '--json']);
  expect(JSON.parse(lacking.out)).toMatchObject({
    sql: expect.stringMatching(/^create table public\.mugs \(\n {2}id integer\n\);/),
  });
  expect(live.run(['migrate', 'diff', '-p', 'target']).err).toBe('The schemas are the same.\n');
  expect(live.json('projects', 'list').projects).toHaveLength(3);
});

it('what --save writes, migrate up applies: to a new project, and not again to its own', {
  timeout: 300_000,
}, () => {
  mkdirSync(path.join(live.folder, 'work', 'saved'));
  const migrate = (...args: string[]) => live.run(['migrate', ...args, '--dir', 'saved']);
  const expectDone = (ran: { status: number | null; err: string }) => expect(ran.status, ran.err).toBe(0);
  const sql = (input: string) => expectDone(live.run(['sql', '-p', 'own', '--file', '-'], { input }));
  for (const slug of ['own', 'fresh'])
    live.json('projects', 'create', slug, '--slug', slug, '--limit-mb', '128');
  const saved = (name: string): string[] => {
    const ran = migrate('diff', '-p', 'own', '--save', name, '--json');
    expectDone(ran);
    const { files, noted_as_applied: isNoted } = JSON.parse(ran.out);
    expect(isNoted).toBe(true);
    const own = migrate('up', '-p', 'own');
    expectDone(own);
    expect(own.out).toContain('up to date');
    expectDone(migrate('up', '-p', 'fresh'));
    expect(live.run(['migrate', 'diff', '-p', 'fresh', '--against', 'own']).err).toBe(
      'The schemas are the same.\n',
    );
    return files;
  };
  sql(
    "create type mood as enum ('sad', 'ok'); create table days (id int primary key, mood mood default 'ok')",
  );
  expect(saved('start')).toHaveLength(1);

  // A transaction cannot use a value that it adds. A function can read a view, which is made after it.
  sql("alter type mood add value 'great'");
  sql(`alter table days alter column mood set default 'great';
    create view happy as select id from days where mood = 'great';
    create function happy_days() returns bigint language sql as 'select count(*) from happy'`);
  expect(saved('great')).toHaveLength(2);

  // More statements than one transaction takes.
  sql(
    `do $$ begin for n in 1..450 loop execute format('create table many_%s (id int primary key)', n); end loop; end $$`,
  );
  expect(saved('many').length).toBeGreaterThan(1);

  // More values of an enum than one transaction takes.
  sql(
    `do $$ begin for n in 1..1100 loop execute format('alter type mood add value %L', 'value ' || n); end loop; end $$`,
  );
  expect(saved('values')).toHaveLength(2);
});

it('where other migrations are pending, a saved one is not noted as applied', { timeout: 120_000 }, () => {
  mkdirSync(path.join(live.folder, 'work', 'pending'));
  live.json('projects', 'create', 'behind', '--slug', 'behind');
  writeFileSync(
    path.join(live.folder, 'work', 'pending', '99999999999999_late.sql'),
    'create table late (id int);',
  );
  const ran = live.run(['sql', '-p', 'behind', 'create table other (id int)']);
  expect(ran.status, ran.err).toBe(0);
  const diff = live.run(['migrate', 'diff', '-p', 'behind', '--dir', 'pending', '--save', 'other']);
  expect([diff.status, diff.err]).toEqual([0, expect.stringContaining('lacks entries of older migrations')]);
  // After the newest, whatever the clock says.
  expect(diff.out).toContain('100000000000000_other.sql');
});
