create type kind as enum ('black', 'green');
create domain price as numeric check (value >= 0);
create table teas (id int generated always as identity primary key, name text not null unique, kind kind, price price,
  doubled numeric generated always as (price * 2) stored, tags text[], data jsonb, added timestamptz default '2026-01-01Z');
insert into teas (name, kind, price, tags, data) select 'tea ' || n, 'green', n, array['a', 'b'], jsonb_build_object('n', n)
  from generate_series(1, 50) n;
create table sales (tea int references teas on delete cascade, day date) partition by range (day);
create table sales_2026 partition of sales for values from ('2026-01-01') to ('2027-01-01');
insert into sales select n, '2026-05-01' from generate_series(1, 20) n;
create view cheap as select name from teas where price < 10;
create materialized view counted as select count(*) as n from teas;
create function touch() returns trigger language plpgsql as $$ begin new.name := trim(new.name); return new; end $$;
create trigger touching before insert on teas for each row execute function touch();
create schema "Odd name"; create table "Odd name"."a ""b""" ("select" int);
select lo_from_bytea(4711, 'large');
comment on table teas is 'All teas';
comment on large object 4711 is 'A large object';
alter table teas enable row level security;
create policy reading on teas for select using (kind = 'green');
create table tagged (id uuid primary key, tags jsonb, at tstzrange, exclude using gist (at with &&));
insert into tagged values ('00000000-0000-0000-0000-000000000001', '{}', '[2026-01-01,2026-02-01)');
create aggregate longest(text) (sfunc = textcat, stype = text, initcond = '');
create role reader; grant select on teas to reader;
alter default privileges in schema public grant select on tables to reader;
