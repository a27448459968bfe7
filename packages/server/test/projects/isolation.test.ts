import { beforeAll, describe, expect, it } from 'vitest';
import { openDatabase } from '../../src/postgres/admin/database.ts';
import { type Sql, sql } from '../../src/postgres/sql.ts';
import { authRoleOf, databaseOf, roleOf } from '../../src/servers/databases/names.ts';
import { derivePassword } from '../../src/servers/role-passwords.ts';
import { address, asAdmin, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 2 });
let mine: { id: string; slug: string };
let neighbour: { id: string; slug: string };
beforeAll(async () => {
  mine = await rowhouse.project('Mine');
  neighbour = await rowhouse.project('Neighbour');
});

/** A statement as some role in some database. */
async function as(role: string, database: string, statement: Sql): Promise<unknown[]> {
  const password = derivePassword(rowhouse.service.deps.masterKey, role);
  const connection = openDatabase({ ...address(), user: role, password, database }, { max: 1 });
  try {
    return await connection.query(statement);
  } finally {
    await connection.end();
  }
}
const asMine = (statement: Sql) => as(roleOf(mine.id), databaseOf(mine.id), statement);

describe("a project's role", () => {
  it('can do what an owner of a database would', async () => {
    await asMine(sql`create table t (id int primary key, name text)`);
    await asMine(sql`create schema other`);
    await asMine(sql`create function f() returns int language plpgsql as 'begin return 1; end'`);
    await asMine(sql`create extension citext`);
    await asMine(sql`create temporary table tmp (id int)`);
    expect(await asMine(sql`insert into t values (1, 'a') returning name`)).toEqual([{ name: 'a' }]);
  });

  it.each([
    ['neighbour', () => databaseOf(neighbour.id)],
    ['control', () => rowhouse.controlDatabase],
    ['maintenance', () => 'postgres'],
    ['template1', () => 'template1'],
    ['project template', () => rowhouse.service.deps.server.template],
  ])('a project cannot enter the %s database', async (_name, database) => {
    await expect(as(roleOf(mine.id), database(), sql`select 1`)).rejects.toMatchObject({
      cause: expect.objectContaining({ severity: 'FATAL' }),
    });
  });

  it.each<[string, () => Sql]>([
    ['lock the service out', () => sql`alter database ${sql.id(databaseOf(mine.id))} connection limit 0`],
    ['become a template', () => sql`alter database ${sql.id(databaseOf(mine.id))} is_template true`],
    ['drop its database', () => sql`drop database ${sql.id(databaseOf(mine.id))}`],
    ['make a database', () => sql`create database evil`],
    ['make a role', () => sql`create role evil`],
    ['become superuser', () => sql`alter role ${sql.id(roleOf(mine.id))} superuser`],
    ['become its auth role', () => sql`set role ${sql.id(authRoleOf(mine.id))}`],
    ["change its neighbour's password", () => sql`alter role ${sql.id(roleOf(neighbour.id))} password 'x'`],
    ['lift its own limits', () => sql`alter role ${sql.id(roleOf(mine.id))} reset temp_file_limit`],
    ['lift them for a session', () => sql`set temp_file_limit = -1`],
    ['be loud in the log', () => sql`set log_min_messages = 'debug5'`],
    ['take advisory locks', () => sql`select pg_advisory_lock(1)`],
    ['take them in a transaction', () => sql`select pg_try_advisory_xact_lock(1, 2)`],
    ['flood the WAL', () => sql`select pg_logical_emit_message(false, 'a', 'b')`],
    ['load a language', () => sql`create extension pltcl`],
    ['load it another way', () => sql`create language plperl`],
    ['put an extension among the guards', () => sql`create extension intarray schema rowhouse`],
    ['put one into the auth schema', () => sql`create extension cube schema auth`],
    ["put one among PostgreSQL's own", () => sql`create extension isn schema pg_catalog`],
    ['reach the network', () => sql`create extension postgres_fdw`],
    ['see into auth', () => sql`create table auth.mine (id int)`],
    ['see into the guards', () => sql`select * from rowhouse.migrations`],
    ['drop the guards', () => sql`drop event trigger rowhouse_extensions`],
    ['disable the guards', () => sql`alter event trigger rowhouse_extensions disable`],
    ['skip the guards', () => sql`set event_triggers = off`],
    ['drop the auth schema', () => sql`drop schema auth cascade`],
    ['read files', () => sql`select pg_read_file('PG_VERSION')`],
    ['run programs', () => sql`copy (select 1) to program 'true'`],
    ['write files', () => sql`copy (select 1) to '/tmp/evil'`],
    ['read passwords', () => sql`select rolpassword from pg_authid`],
  ])('cannot %s', async (_what, statement) => {
    await expect(asMine(statement())).rejects.toMatchObject({ name: 'PostgresError' });
  });

  it("a project's role has limits that it cannot change", async () => {
    const [row] = await asMine(sql`
      select current_setting('temp_file_limit') as files, current_setting('log_min_messages') as log,
             current_setting('log_min_error_statement') as statements`);
    expect(row).toEqual({ files: '1GB', log: 'fatal', statements: 'panic' });
  });

  it('a hostile project leaves its neighbour as it was', async () => {
    expect(await as(roleOf(neighbour.id), databaseOf(neighbour.id), sql`select 1 as one`)).toEqual([
      { one: 1 },
    ]);
    expect((await rowhouse.call('GET', `/projects/${neighbour.slug}`)).body.project.status).toBe('ready');
  });
});

it('the auth role owns its schema and nothing else', async () => {
  const asAuth = (statement: Sql) => as(authRoleOf(mine.id), databaseOf(mine.id), statement);
  await asAuth(sql`create table auth.probe (id int)`);
  await asAuth(sql`drop table auth.probe`);
  for (const statement of [sql`create table public.x (id int)`, sql`create schema x`]) {
    await expect(asAuth(statement)).rejects.toMatchObject({ name: 'PostgresError', sqlstate: '42501' });
  }
});

it('each role has its own SCRAM password', async () => {
  const { server } = rowhouse.service.deps;
  const rows = await server.maintenance.query<{ rolname: string; rolpassword: string }>(sql`
    select rolname, rolpassword from pg_authid where rolname in (${roleOf(mine.id)}, ${authRoleOf(mine.id)})`);
  expect(rows.length).toBe(2);
  for (const { rolpassword } of rows) expect(rolpassword).toMatch(/^SCRAM-SHA-256\$4096:/);
  const wrong = openDatabase(
    {
      ...address(),
      user: roleOf(mine.id),
      password: derivePassword(server.masterKey, roleOf(neighbour.id)),
      database: databaseOf(mine.id),
    },
    { max: 1 },
  );
  await expect(wrong.query(sql`select 1`)).rejects.toMatchObject({ code: 'unavailable' });
  await wrong.end();
});

describe('a project that holds on to its connections', () => {
  it('cannot prevent its deletion, nor block the service', async () => {
    const holder = await rowhouse.project('Holder');
    const at = { ...address(), user: roleOf(holder.id), database: databaseOf(holder.id) };
    const password = derivePassword(rowhouse.service.deps.masterKey, at.user);
    const hold = openDatabase({ ...at, password }, { max: 1 });
    const held = hold
      .transaction(async (transaction) => {
        await transaction.query(sql`grant connect on database ${sql.id(at.database)} to current_user`);
        await transaction.query(sql`alter role current_user password 'x'`);
        await transaction.query(sql`select pg_sleep(30)`);
      })
      .catch(() => {});
    await until('it holds its locks', async () =>
      asAdmin(
        async (admin) =>
          (
            await admin.query(sql`
        select 1 from pg_stat_activity where datname = ${at.database} and query like '%pg_sleep%'`)
          ).length > 0,
      ),
    );
    const deletes = Array.from({ length: 12 }, () => rowhouse.call('DELETE', `/projects/${holder.slug}`));
    expect((await rowhouse.call('GET', `/projects/${neighbour.slug}`)).status).toBe(200);
    const statuses = (await Promise.all(deletes)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200).length).toBe(1);
    expect(statuses.filter((status) => status === 404).length).toBe(11);
    await held;
    await hold.end();
  });

  it('gives every caller who asks at once a working connection address', async () => {
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => rowhouse.call('GET', `/projects/${mine.slug}/connection`)),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  });

  it('gets its share of the connections and not all', async () => {
    const password = derivePassword(rowhouse.service.deps.masterKey, roleOf(mine.id));
    const login = { ...address(), user: roleOf(mine.id), password, database: databaseOf(mine.id) };
    const flood = Array.from({ length: 60 }, () => openDatabase(login, { max: 1 }));
    const results = await Promise.allSettled(
      flood.map((database) => database.query(sql`select pg_sleep(0.5)`)),
    );
    expect(results.filter(({ status }) => status === 'fulfilled').length).toBeLessThanOrEqual(40);
    expect(await as(roleOf(neighbour.id), databaseOf(neighbour.id), sql`select 1 as one`)).toEqual([
      { one: 1 },
    ]);
    await Promise.all(flood.map((database) => database.end()));
  });

  it('loses a session that fills the lock table of PostgreSQL', { tags: 'long' }, async () => {
    const lock = asMine(sql`
      do $$ begin
        for n in 1..60000 loop perform lo_unlink(lo_create(0)); end loop;
        perform pg_sleep(20);
      end $$`);
    await expect(lock).rejects.toThrow();
    expect(
      await as(roleOf(neighbour.id), databaseOf(neighbour.id), sql`create table fine as select 1`),
    ).toEqual([]);
  });
});

it('accepts no connection while its database is being created', async () => {
  const { server } = rowhouse.service.deps;
  const made: string[] = [];
  const maintenance = {
    ...server.maintenance,
    change: async (statement: Sql) => {
      const result = await server.maintenance.change(statement);
      const [row] = await server.maintenance.query<{ open: number }>(sql`
        select count(*)::int as open from pg_database
        where datname = 'p_watched' and datallowconn and has_database_privilege('public', datname, 'connect')`);
      made.push(`${row?.open}`);
      return result as never;
    },
  };
  const { dropProvisioned, provision } = await import('../../src/servers/databases/provision.ts');
  await provision({ ...server, maintenance }, 'watched');
  await dropProvisioned(server, 'watched');
  expect(made.length).toBeGreaterThan(5);
  expect(new Set(made)).toEqual(new Set(['0']));
});
