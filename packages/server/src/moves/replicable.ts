// What of a project logical replication can carry, what is copied while the project is closed, and what neither can do.

import type { Queryable } from '../postgres/admin/database.ts';
import { type Sql, sql } from '../postgres/sql.ts';
import type { KeylessTable } from '../servers/databases/publication.ts';
import { publications } from '../servers/databases/publication.ts';
import { countSubscriptions } from '../servers/databases/subscription.ts';
import type { Server } from '../servers/server.ts';

/** The project has to be moved by a dump. The message says why, and its owner reads it. */
export class NotOnline extends Error {
  override readonly name = 'NotOnline';
}

export type Contents = Readonly<{
  /** Replicated. Names are quoted by PostgreSQL. */
  tables: readonly string[];
  keyless: readonly KeylessTable[];
  /** Copied while the project is closed. */
  rest: Rest;
}>;
export type Rest = Readonly<{
  unlogged: readonly string[];
  views: readonly string[];
  hasLargeObjects: boolean;
  /** The size of unlogged tables, materialized views and large objects together. */
  bytes: number;
}>;

/** Each takes a worker for a moment, and a lock of the table that all projects share. */
const maxTables = 2_000;
const shown = 3;

/** What the two servers lack. */
export async function checkServersFor(from: Server, to: Server): Promise<void> {
  // The one on the source creates a role that replicates, the one on the target a subscription for tables of other roles.
  for (const { superuser, name } of [from, to])
    if (!superuser) throw new NotOnline(`the role of Rowhouse on ${name} is not a superuser`);
  const [lack] = await from.maintenance.query<{ what: string }>(sql`
    select 'wal_level is not logical' as what where current_setting('wal_level') <> 'logical'
    union all
    -- One for the changes, and two for tables that are copied at the same time.
    select 'max_replication_slots leaves no three free'
    where (select count(*) from pg_replication_slots) + 3 > current_setting('max_replication_slots')::int
    union all
    select 'max_wal_senders leaves no three free'
    where (select count(*) from pg_stat_replication) + 3 > current_setting('max_wal_senders')::int
    limit 1`);
  if (lack) throw new NotOnline(`${lack.what} on ${from.name}`);
  await checkWorkers(to, 1);
}

/** Subscriptions that take all workers would wait for each other: none is left to copy a table. `more`: to be created. */
export async function checkWorkers(to: Server, more: number): Promise<void> {
  const { used, all } = await countSubscriptions(to);
  if (used + more >= all)
    throw new NotOnline(`max_logical_replication_workers leaves none free on ${to.name}`);
}

/** `inside`: the project's database. */
export async function readContents(inside: Queryable): Promise<Contents> {
  const obstacles = await inside.query<{ what: string }>(sql`${findObstacles} limit ${shown}`);
  if (obstacles.length > 0) throw new NotOnline(obstacles.map(({ what }) => what).join(', '));
  const found = await inside.query<{ name: string; identity: string; hasKey: boolean }>(sql`
    select class.oid::regclass::text as name, relreplident as identity, ${hasKey} as "hasKey"
    from pg_class as class where ${isReplicated} order by class.oid limit ${maxTables + 1}`);
  if (found.length > maxTables) throw new NotOnline(`the project has more than ${maxTables} tables`);
  const keyless = found
    .filter(({ hasKey: has, identity }) => !has && identity !== 'f')
    .map(({ name, identity }): KeylessTable => ({ name, before: identity === 'n' ? 'n' : 'd' }));
  return { tables: found.map(({ name }) => name), keyless, rest: await readRest(inside) };
}

/** Again during the pause: large objects can be created without a change of tables. */
export async function readRest(inside: Queryable): Promise<Rest> {
  const found = await inside.query<{ name: string; isView: boolean; bytes: number }>(sql`
    select class.oid::regclass::text as name, relkind = 'm' as "isView", pg_total_relation_size(class.oid)::float8 as bytes
    from pg_class as class where ${isOwn} and (${isUnlogged} or relkind = 'm' and relispopulated)
    order by class.oid`);
  const [large] = await inside.query<{ bytes: number | null }>(sql`
    select pg_relation_size('pg_largeobject')::float8 as bytes
    where exists (select from pg_largeobject_metadata)`);
  const bytes = found.reduce((sum, one) => sum + one.bytes, large?.bytes ?? 0);
  const names = (isView: boolean) => found.filter((one) => one.isView === isView).map(({ name }) => name);
  return { unlogged: names(false), views: names(true), hasLargeObjects: large !== undefined, bytes };
}

/** Schema `rowhouse` has no rows of a project. Tables of extensions are created by CREATE EXTENSION. */
const isOwn = sql`
  relnamespace in (
    select oid from pg_namespace
    where nspname not in ('pg_catalog', 'information_schema', 'pg_toast', 'rowhouse') and nspname !~ '^pg_(toast_)?temp_')
  and not exists (
    select from pg_depend where classid = 'pg_class'::regclass and objid = class.oid and deptype = 'e')`;
const isReplicated = sql`relkind = 'r' and relpersistence = 'p' and ${isOwn}`;
const isUnlogged = sql`relkind = 'r' and relpersistence = 'u'`;
const hasKey = sql`exists (
  select from pg_index
  where indrelid = class.oid and indisvalid and indimmediate
    and case relreplident when 'd' then indisprimary when 'i' then indisreplident else false end)`;

/** As the type cache of PostgreSQL finds it, for what is common. Composite types are not looked into. */
const hasEquality = (type: Sql) => sql`
  (${type} in ('varchar'::regtype, 'cidr'::regtype)
   or exists (select from pg_type where oid = ${type} and typtype in ('e', 'r', 'm'))
   or exists (
     select from pg_opclass join pg_am on pg_am.oid = opcmethod
     where opcintype = ${type} and opcdefault and amname in ('btree', 'hash')))`;

const findObstacles = sql`
  -- The owner of a table applies changes to it, and PostgreSQL refuses that where its policies would have a say.
  select 'table ' || class.oid::regclass || ' forces row security on its owner' as what
  from pg_class as class where ${isReplicated} and relforcerowsecurity
  union all
  -- They would run for every row that the target receives, although they have run on the source.
  select 'trigger ' || tgname || ' on ' || tgrelid::regclass || ' fires for replicated rows'
  from pg_trigger join pg_class as class on class.oid = tgrelid
  where tgenabled in ('A', 'R') and ${isOwn}
  union all
  select 'the index of the replica identity of ' || class.oid::regclass || ' is gone'
  from pg_class as class where ${isReplicated} and relreplident = 'i' and not ${hasKey}
  union all
  -- Rows without a key are found by comparing all columns.
  select 'table ' || class.oid::regclass || ' has no key, and ' || attname || ' cannot be compared'
  from pg_class as class
  join pg_attribute on attrelid = class.oid and attnum > 0 and not attisdropped and attgenerated = ''
  join pg_type as own on own.oid = atttypid
  join pg_type as base on base.oid = case when own.typtype = 'd' then own.typbasetype else own.oid end
  where ${isReplicated} and not ${hasKey}
    and not ${hasEquality(sql`base.oid`)}
    and not (base.typcategory = 'A' and ${hasEquality(sql`base.typelem`)})
  union all
  -- PostgreSQL 18 refuses UPDATE and DELETE while such a table is published.
  select 'table ' || class.oid::regclass || ' has no key, and its column ' || attname || ' is generated'
  from pg_class as class
  join pg_attribute on attrelid = class.oid and attnum > 0 and not attisdropped and attgenerated <> ''
  where ${isReplicated} and not ${hasKey}
  union all
  select 'the key of table ' || class.oid::regclass || ' has the generated column ' || attname
  from pg_class as class
  join pg_index on indrelid = class.oid and indisvalid
    and case relreplident when 'd' then indisprimary when 'i' then indisreplident else false end
  join pg_attribute on attrelid = class.oid and attnum = any (indkey::int2[]) and attgenerated <> ''
  where ${isReplicated}
  union all
  -- They are filled by COPY, as the role of the project, which cannot turn triggers off.
  select 'unlogged table ' || class.oid::regclass || ' has triggers or foreign keys'
  from pg_class as class
  where ${isUnlogged} and ${isOwn} and exists (select from pg_trigger where tgrelid = class.oid)
  union all
  select 'extension ' || extname || ' has tables with data' from pg_extension where cardinality(extconfig) > 0
  union all
  select 'publication ' || pubname || ' has a name that Rowhouse uses' from pg_publication
  where pubname = any (${publications}::name[])
    and pubowner <> (select oid from pg_roles where rolname = current_user)`;
