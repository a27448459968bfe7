import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { ensureDumpRole } from '../../src/servers/databases/dump-role.ts';
import { databaseOf, dumpRoleOf, roleOf } from '../../src/servers/databases/names.ts';
import { openExports } from '../../src/transfer/export/export.ts';
import { corpus, download, noSession, type Project, run, sourceOf, unzip } from '../support/exports.ts';
import { address, asAdmin, useTestService } from '../support/helpers.ts';

// Without an environment for programs: the program on this machine, if there is one, is tried by its own test.
const rowhouse = useTestService();

const version = (program: string) =>
  Number(/(\d+)/.exec(spawnSync(program, ['--version'], { encoding: 'utf8' }).stdout ?? '')?.[1] ?? 0);
const nativeMajor = version('pg_dump');
if (nativeMajor < 18)
  console.warn('SKIPPED: pg_dump 18 or newer is not installed, so exports are not compared with its own.');
const hasPsql = version('psql') > 0;
if (!hasPsql) console.warn('SKIPPED: psql is not installed, so no export is restored.');

const place = () => [`--host=${address().host}`, `--port=${address().port}`, `--username=${address().user}`];
const environment = () => ({ ...process.env, PGPASSWORD: address().password });

async function filled(): Promise<Project> {
  const project = await rowhouse.project('Export');
  await run(rowhouse, project, ...corpus);
  const { status } = await rowhouse.call('POST', `/projects/${project.slug}/auth/signup`, {
    key: project.key,
    body: { email: 'ada@example.com', password: 'correct horse battery' },
  });
  expect(status).toBe(201);
  await run(rowhouse, project, 'update teas set owner = (select id from auth.users)');
  return project;
}

/** What differs between two dumps of the same data. */
function comparable(dump: string): string {
  return dump.replace(/^-- Dumped (from|by) .*$/gm, '').replace(/^\\(un)?restrict .*$/gm, '');
}

/** Rows of every table, and what there is besides tables. */
async function fingerprint(database: string): Promise<Record<string, unknown>> {
  const client = new pg.Client({ ...address(), database });
  await client.connect();
  try {
    const { rows: tables } = await client.query<{ name: string }>(`
      select oid::regclass::text as name from pg_class
      where relkind in ('r', 'm') and relnamespace::regnamespace::text !~ '^(pg_|information_schema|rowhouse)' order by 1`);
    const found: Record<string, unknown> = {};
    for (const { name } of tables) {
      const { rows } = await client.query(
        `select count(*)::int, md5(string_agg(t::text, '|' order by t::text)) from only ${name} as t`,
      );
      found[name] = rows[0];
    }
    const { rows: facts } = await client.query(`
      select (select last_value from public.counter) as counter,
             array(select encode(lo_get(oid), 'hex') from pg_largeobject_metadata) as objects,
             array(select polname || pg_get_expr(polqual, polrelid) from pg_policy) as policies,
             array(select pg_get_indexdef(indexrelid) from pg_index
                   where indrelid >= 16384 and pg_get_indexdef(indexrelid) !~ ' ON (pg_toast|rowhouse)' order by 1) as indexes,
             array(select conrelid::regclass || pg_get_constraintdef(oid) from pg_constraint
                   where connamespace in ('public'::regnamespace, 'auth'::regnamespace) order by 1) as constraints,
             array(select relname || pg_get_userbyid(relowner) || array(select unnest(relacl)::text order by 1)::text from pg_class
                   where relnamespace in ('public'::regnamespace, 'auth'::regnamespace) order by 1) as owners`);
    return { ...found, facts: facts[0] };
  } finally {
    await client.end();
  }
}

describe('an export', () => {
  it.skipIf(!hasPsql)('as SQL gives everything back, users included', async () => {
    const project = await filled();
    const { status, headers, bytes } = await download(rowhouse, project, 'sql');
    expect(status).toBe(200);
    expect(headers['content-disposition']).toBe(`attachment; filename="${project.slug}.sql"`);
    const copy = `export_${randomBytes(5).toString('hex')}`;
    await asAdmin((admin) =>
      admin.query(sql`create database ${sql.id(copy)} template template0 encoding 'UTF8' locale 'C'`),
    );
    try {
      const restored = spawnSync('psql', [...place(), '--quiet', '--no-psqlrc', `--dbname=${copy}`], {
        input: bytes,
        encoding: 'utf8',
        env: environment(),
      });
      // Errors about the service's own event triggers are expected: their functions are not in the dump.
      const problems = restored.stderr.split('\n').filter((line) => line.includes('ERROR'));
      expect(problems.filter((line) => !/schema "rowhouse" does not exist|event trigger/.test(line))).toEqual(
        [],
      );
      expect(await fingerprint(copy)).toEqual(await fingerprint(databaseOf(project.id)));
    } finally {
      await asAdmin((admin) => admin.query(sql`drop database ${sql.id(copy)} with (force)`));
    }
    expect(bytes.toString()).toContain('$pbkdf2-sha256$');
    expect(bytes.toString()).not.toMatch(/CREATE (TABLE|SCHEMA|FUNCTION) rowhouse\b/);
    expect(bytes.toString()).not.toContain('pg_advisory');
    await noSession(rowhouse, project);
  });

  it.skipIf(nativeMajor < 18)('equals what pg_dump writes', async () => {
    const project = await filled();
    const { bytes } = await download(rowhouse, project, 'sql');
    const native = spawnSync(
      'pg_dump',
      [...place(), '--exclude-schema=rowhouse', '--exclude-schema=pg_catalog', databaseOf(project.id)],
      { encoding: 'utf8', env: environment() },
    );
    expect(native.stderr).toBe('');
    expect(comparable(bytes.toString())).toBe(comparable(native.stdout));
    // The same by the program itself, as the service runs it.
    const { control, servers } = rowhouse.service.deps;
    const programs = { PATH: process.env.PATH ?? '' };
    const exports = openExports({
      control,
      servers,
      programs,
      ensureCurrent: async () => {},
      onError: () => {},
    });
    const pieces: Uint8Array[] = [];
    const write = async (piece: Uint8Array) => void pieces.push(Buffer.from(piece));
    await exports.run(sourceOf(rowhouse, project.id), 'sql', write, new AbortController().signal);
    expect(comparable(Buffer.concat(pieces).toString())).toBe(comparable(native.stdout));
    await exports.stop();
  });

  it('is in pg_dump’s own format unless asked otherwise', async () => {
    const project = await filled();
    const { bytes } = await download(rowhouse, project, 'custom');
    expect(bytes.toString('latin1', 0, 5)).toBe('PGDMP');
    const response = await rowhouse.app.inject({
      url: `/api/dbaas/v2/projects/${project.slug}/export`,
      headers: { 'x-api-key': rowhouse.accountKey },
    });
    expect([response.statusCode, response.headers['content-type']]).toEqual([
      200,
      'application/octet-stream',
    ]);
    expect(response.rawPayload.toString('latin1', 0, 5)).toBe('PGDMP');
  });

  it('as CSV holds a file for each table, and no secrets', async () => {
    const project = await filled();
    const { status, headers, bytes } = await download(rowhouse, project, 'csv');
    expect([status, headers['content-type']]).toEqual([200, 'application/zip']);
    const files = unzip(bytes);
    expect([...files.keys()].sort()).toEqual([
      'auth.users.csv',
      'odd schema.a%2Fb%2Ec %22d%22.csv',
      'public.base.csv',
      'public.derived.csv',
      'public.logs.csv',
      'public.secrets.csv',
      'public.teas.csv',
    ]);
    expect(files.get('odd schema.a%2Fb%2Ec %22d%22.csv')).toBe('Kolumne ä,select\n1,ünïcödé 🍵\n,""\n');
    expect(files.get('public.logs.csv')).toBe('at,line\n2026-05-05,may\n');
    expect(files.get('public.base.csv')).toBe('id\n1\n');
    expect(files.get('public.secrets.csv')).toBe('id,word\n1,hidden\n');
    expect(files.get('public.teas.csv')).toContain('"tab\tline\nback\\slash",1.50,calm,12.5,"(1,""x,y"")"');
    expect(files.get('auth.users.csv')).toContain('ada@example.com');
    expect([...files.values()].join('')).not.toContain('pbkdf2');
    await noSession(rowhouse, project);
  });
});

describe('who may export', () => {
  it('a key to everything in the project, and no other', async () => {
    const project = await rowhouse.project();
    const other = await rowhouse.project();
    const issue = async (body: object) => {
      const answer = await rowhouse.call('POST', `/projects/${project.slug}/keys`, { body });
      expect([answer.status, answer.body.error]).toEqual([201, undefined]);
      return answer.body.api_key as string;
    };
    const ask = async (key: string) => {
      const { status, bytes } = await download(rowhouse, project, 'custom', key);
      return [status, status === 200 ? undefined : JSON.parse(bytes.toString()).error.hint];
    };
    expect(await ask(await issue({ name: 'all', scopes: ['manage'] }))).toEqual([200, undefined]);
    expect(await ask(await issue({ name: 'sql', scopes: ['query', 'tables:read'] }))).toEqual([
      403,
      expect.stringContaining('"manage"'),
    ]);
    const narrow = { name: 'narrow', scopes: ['manage', 'tables:read'], tables: ['teas'] };
    expect(await ask(await issue(narrow))).toEqual([403, expect.stringContaining('without "tables"')]);
    expect(await ask(await issue({ name: 'page', kind: 'publishable' }))).toEqual([
      403,
      expect.stringContaining('account key'),
    ]);
    expect((await ask(other.key))[0]).toBe(404);
    await rowhouse.call('POST', `/projects/${project.slug}/keys/rotate`, { body: {} });
    expect(await ask(project.key)).toEqual([403, expect.stringContaining('current project key')]);
  });

  it('in a known format, by GET', async () => {
    const project = await rowhouse.project();
    expect((await download(rowhouse, project, 'tar')).status).toBe(400);
    const head = await rowhouse.call('HEAD', `/projects/${project.slug}/export`);
    expect([head.status, head.headers.allow]).toEqual([405, 'GET']);
  });
});

describe('a hostile project', () => {
  it('runs none of its code in an export', async () => {
    const project = await rowhouse.project('Hostile');
    // spy() fails the export if any role but the project's own runs it, even in a read-only transaction.
    await run(
      rowhouse,
      project,
      `create function spy() returns boolean language plpgsql as $$ begin
         if session_user <> '${roleOf(project.id)}' then raise exception 'seen by %', session_user; end if;
         return true; end $$`,
      `create function spy(int) returns int language sql immutable as 'select case when public.spy() then $1 end'`,
      'create table t (id int default spy(1) check (spy(id) = id), twice int generated always as (spy(id)) stored)',
      'insert into t (id) values (1), (2)',
      'create index on t (spy(id)) where spy(id) > 0',
      'create statistics on spy(id), (id + 1) from t',
      // Their constant parts are computed when a query is planned.
      'create index on t ((spy(1) + id)) where spy(2) > id',
      'create statistics on (spy(3) + id), (id + 2) from t',
      'create table parts (id int, twice int generated always as (id * 2) stored) partition by range ((spy(4) + id))',
      'create table part_1 partition of parts for values from (0) to (100)',
      'create index on part_1 ((spy(5) + id))',
      'insert into parts values (7)',
      'create table usual (id int, twice int generated always as (id * 2) stored)',
      'insert into usual values (8)',
      'alter table t enable row level security',
      'alter table t force row level security',
      'create policy p on t using (spy())',
      'create view v as select * from t where spy()',
      'create materialized view m as select * from t where spy()',
      'create rule r as on insert to v do instead select spy()',
      'create domain d as int check (spy(value) = value)',
      'create table with_domain (d d)',
      'insert into with_domain values (3)',
      'create function public.pg_get_viewdef(oid) returns text language sql as $$ select spy()::text $$',
      'create function public.format_type(oid, int) returns text language sql as $$ select spy()::text $$',
      'create function public.oideq(oid, oid) returns boolean language sql as $$ select public.spy() $$',
      'create operator public.= (leftarg = oid, rightarg = oid, function = public.oideq)',
      `comment on table t is E'x\\n\\\\! touch /tmp/owned\\ndrop table t;'`,
      `create table "x\n\\! echo owned\n" (id int)`,
    );
    // The spy works: the role that exports would trip it.
    const client = new pg.Client(await ensureDumpRole(rowhouse.service.deps.server, project.id));
    await client.connect();
    await expect(client.query('select public.spy()')).rejects.toThrow(`seen by ${dumpRoleOf(project.id)}`);
    await client.end();
    for (const format of ['sql', 'custom', 'csv']) {
      const { status, bytes } = await download(rowhouse, project, format);
      expect([format, status, status === 200 || bytes.toString()]).toEqual([format, 200, true]);
      // Since 2025: psql then refuses every other meta-command that a name or a text could smuggle in.
      if (format === 'sql') expect(bytes.toString()).toMatch(/^\\restrict \w{20,}$/m);
      if (format !== 'csv') continue;
      // Only a query reads stored generated columns: they are left out where it would run the project's code.
      const files = unzip(bytes);
      expect(files.get('public.t.csv')).toBe('id\n1\n2\n');
      expect(files.get('public.parts.csv')).toBe('id\n7\n');
      expect(files.get('public.usual.csv')).toBe('id,twice\n8,16\n');
    }
  });

  it('cannot use the role that exports, which reaches nothing outside', async () => {
    const project = await rowhouse.project();
    const neighbour = await rowhouse.project();
    await download(rowhouse, project, 'sql');
    const refused = await rowhouse.call('POST', `/projects/${project.slug}/query`, {
      key: project.key,
      body: { query: `do $$ begin set local role ${dumpRoleOf(project.id)}; end $$` },
    });
    expect([refused.status, refused.body.error.sql?.state]).toEqual([403, '42501']);
    const login = await ensureDumpRole(rowhouse.service.deps.server, project.id);
    const client = new pg.Client({ ...login, host: login.host });
    await client.connect();
    try {
      await expect(client.query('select rolpassword from pg_authid')).rejects.toThrow('permission denied');
      await expect(client.query(`set role ${roleOf(project.id)}`)).rejects.toThrow('permission denied');
      await expect(client.query('select * from rowhouse.migrations')).rejects.toThrow('permission denied');
    } finally {
      await client.end();
    }
    for (const database of [databaseOf(neighbour.id), 'postgres', rowhouse.controlDatabase]) {
      const elsewhere = new pg.Client({ ...login, database });
      await expect(elsewhere.connect(), database).rejects.toThrow('permission denied for database');
    }
  });

  it('whose owner may not read its own table is told so', async () => {
    const project = await rowhouse.project();
    await run(
      rowhouse,
      project,
      'create table t (id int)',
      'revoke all on t from current_user, authenticated',
    );
    const { status, bytes } = await download(rowhouse, project, 'sql');
    const { error } = JSON.parse(bytes.toString());
    expect([status, error.code, error.message]).toEqual([
      409,
      'conflict',
      'Not all of this project can be read: permission denied for table t.',
    ]);
  });
});
