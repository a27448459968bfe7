// What tests of exports share: a project that has one of everything, downloads, and a reader of zip archives.
import { inflateRawSync } from 'node:zlib';
import { expect } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { dumpRoleOf } from '../../src/servers/databases/names.ts';
import { api, type TestService, until } from './helpers.ts';

export type Project = { slug: string; id: string; key: string };

export async function run(rowhouse: TestService, project: Project, ...queries: string[]) {
  let last: Awaited<ReturnType<TestService['call']>> | undefined;
  for (const query of queries) {
    last = await rowhouse.call('POST', `/projects/${project.slug}/query`, {
      key: project.key,
      body: { query },
    });
    expect([query, last.status, last.body.error]).toEqual([query, 200, undefined]);
  }
  return last?.body;
}

export async function download(rowhouse: TestService, project: Project, format: string, key = project.key) {
  const response = await rowhouse.app.inject({
    method: 'GET',
    url: `${api}/projects/${project.slug}/export?format=${format}`,
    headers: { 'x-api-key': key },
  });
  return { status: response.statusCode, headers: response.headers, bytes: response.rawPayload };
}

/** Sessions of exports in the project's database. */
export async function exportSessions(rowhouse: TestService, { id }: Project): Promise<number> {
  const [row] = await rowhouse.service.deps.server.maintenance.query<{ count: number }>(
    sql`select count(*)::int as count from pg_stat_activity where usename = ${dumpRoleOf(id)}`,
  );
  return row?.count ?? Number.NaN;
}

export const noSession = (rowhouse: TestService, project: Project) =>
  until('the session is gone', async () => (await exportSessions(rowhouse, project)) === 0, 10_000);

/** By name, from the directory at the end, as programs do. */
export function unzip(bytes: Buffer): Map<string, string> {
  const end = bytes.lastIndexOf(Buffer.from('PK\x06\x06', 'latin1'));
  const count = Number(bytes.readBigUInt64LE(end + 32));
  let at = Number(bytes.readBigUInt64LE(end + 48));
  const files = new Map<string, string>();
  for (let n = 0; n < count; n++) {
    expect(bytes.readUInt32LE(at)).toBe(0x02014b50);
    const nameSize = bytes.readUInt16LE(at + 28);
    const extraSize = bytes.readUInt16LE(at + 30);
    const name = bytes.toString('utf8', at + 46, at + 46 + nameSize);
    const extra = at + 46 + nameSize + 4;
    const [size, packed, header] = [0, 8, 16].map((offset) => Number(bytes.readBigUInt64LE(extra + offset)));
    const data =
      (header ?? 0) + 30 + bytes.readUInt16LE((header ?? 0) + 26) + bytes.readUInt16LE((header ?? 0) + 28);
    const content = inflateRawSync(bytes.subarray(data, data + (packed ?? 0)));
    expect(content.length).toBe(size);
    files.set(name, content.toString('utf8'));
    at += 46 + nameSize + extraSize;
  }
  return files;
}

/** One of everything that a dump has to know. */
export const corpus = [
  `create type mood as enum ('calm', 'it''s "loud"')`,
  `create domain percent as numeric check (value between 0 and 100)`,
  `create type pair as (a int, b text)`,
  `create type span as range (subtype = float8)`,
  `create schema "odd schema"`,
  `create sequence public.counter start 5`,
  `create table teas (
     id bigint generated always as identity primary key, name text not null unique, price numeric(10,2) default 1.5,
     mood mood, share percent, couple pair, during span, tags text[], data jsonb, raw bytea, at timestamptz, took interval,
     gross numeric generated always as (price * 1.2) stored, net numeric generated always as (price / 2) virtual,
     owner uuid references auth.users (id))`,
  `insert into teas (name, mood, share, couple, during, tags, data, raw, at, took) values
     (E'tab\\tline\\nback\\\\slash', 'calm', 12.5, (1, 'x,y'), '[1,2)', '{a,NULL,"b c"}', '{"a": [1, null]}', '\\x00ff',
      '2026-11-14T09:30:00.123456Z', '1 day 02:03:04'), ('\\.', null, null, null, null, null, null, null, null, null)`,
  `create table "odd schema"."a/b.c ""d""" ("Kolumne ä" int, "select" text)`,
  `insert into "odd schema"."a/b.c ""d""" values (1, 'ünïcödé 🍵'), (null, '')`,
  `create table logs (at date not null, line text) partition by range (at)`,
  `create table logs_2026 partition of logs for values from ('2026-01-01') to ('2027-01-01')`,
  `insert into logs values ('2026-05-05', 'may')`,
  `create table base (id int)`,
  `create table derived (more text) inherits (base)`,
  `insert into derived values (7, 'child')`,
  `insert into base values (1)`,
  `create view cheap as select name from teas where price < 2`,
  `create materialized view counted as select count(*) as n from teas`,
  `create function double(n int) returns int language sql immutable as 'select n * 2'`,
  `create index teas_double on teas (double(id::int))`,
  `create function touch() returns trigger language plpgsql as $$ begin return new; end $$`,
  `create trigger touched before update on teas for each row execute function touch()`,
  `create table secrets (id int, word text)`,
  `insert into secrets values (1, 'hidden')`,
  `alter table secrets enable row level security`,
  `alter table secrets force row level security`,
  `create policy nobody on secrets to authenticated using (auth.uid() is null)`,
  `comment on table teas is 'Tea; it''s "good"'`,
  `create cast (pair as text) with inout`,
  `grant select on secrets to anon`,
  `select nextval('counter'), lo_from_bytea(0, '\\xdeadbeef')`,
];

/** The project and its server. */
export function sourceOf({ service }: TestService, id: string) {
  return { id, account_id: '', server_id: service.deps.server.id };
}
