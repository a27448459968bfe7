// The template every project database is made from: the project migrations plus guards that only a superuser can set.
// Its name carries a checksum of all that is in it, so a new version gets a new template and nothing is changed in place.
import { createHash } from 'node:crypto';
import { type Address, type Database, isState, openDatabase } from '../postgres/database.ts';
import { type Migration, migrate, readMigrations } from '../postgres/migrations.ts';
import { sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';

/** Extensions a project may create. Other languages are left out: a loop in pltcl survives cancel and terminate. */
const extensions = [
  ...['btree_gin', 'btree_gist', 'citext', 'cube', 'dict_int', 'earthdistance', 'fuzzystrmatch', 'hstore'],
  ...['intarray', 'isn', 'lo', 'ltree', 'pg_trgm', 'pgcrypto', 'plpgsql', 'seg', 'tablefunc', 'tcn'],
  ...['tsm_system_rows', 'tsm_system_time', 'unaccent', 'uuid-ossp', 'vector'],
];

/**
 * Advisory locks live in one table for the whole server: a million of them made every neighbour's query and login
 * fail. pg_logical_emit_message wrote 2 GB of WAL in 3.5 s.
 */
const guards = `
  do $$
  declare f regprocedure;
  begin
    for f in
      select oid::regprocedure from pg_catalog.pg_proc
      where pronamespace = 'pg_catalog'::regnamespace
        and (proname ~ '^pg_(try_)?advisory_' or proname = 'pg_logical_emit_message')
    loop
      execute pg_catalog.format('revoke execute on function %s from public', f);
    end loop;
  end $$;

  create function rowhouse.check_extensions() returns event_trigger
  language plpgsql set search_path = pg_catalog as $$
  declare
    allowed constant text[] := '{${extensions.join(',')}}';
    refused text;
  begin
    select pg_catalog.string_agg(extname, ', ') into refused
    from pg_catalog.pg_extension where extname <> all (allowed);
    if refused is not null then
      raise exception 'extension % is not available to projects', refused
        using errcode = 'insufficient_privilege', hint = 'Available: ' || pg_catalog.array_to_string(allowed, ', ');
    end if;
  end $$;

  create event trigger rowhouse_extensions on ddl_command_end
    when tag in ('CREATE EXTENSION', 'ALTER EXTENSION', 'CREATE LANGUAGE')
    execute function rowhouse.check_extensions();
`;

/** Returns the template's name. Called under the start lock, so only one service makes it. */
export async function ensureTemplate(address: Address, maintenance: Database): Promise<string> {
  const migrations = await readMigrations('project');
  const [facts] = await maintenance.query<{ major: number; super: boolean }>(sql`
    select current_setting('server_version_num')::int / 10000 as major,
           (select rolsuper from pg_roles where rolname = current_user) as super`);
  const guarded = facts?.super === true;
  const name = `rowhouse_t_${checksum(migrations, guarded)}`;
  const [found] = await maintenance.query<{ finished: boolean }>(sql`
    select datistemplate as finished from pg_database where datname = ${name}`);
  if (found?.finished) return name;
  // Unfinished: the service stopped while it made this one. Nothing has been copied from it yet.
  if (found) await maintenance.change(sql`drop database ${sql.id(name)} with (force)`);
  const locale =
    (facts?.major ?? 0) >= 17
      ? sql`locale_provider builtin builtin_locale 'C.UTF-8' locale 'C'`
      : sql`locale_provider libc locale 'C'`;
  await maintenance.change(
    sql`create database ${sql.id(name)} template template0 encoding 'UTF8' ${locale} allow_connections false`,
  );
  await openToUs(maintenance, name);
  await fill(address, name, migrations, guarded);
  await maintenance.change(sql`alter database ${sql.id(name)} with is_template true allow_connections false`);
  return name;
}

async function fill(
  address: Address,
  name: string,
  migrations: Migration[],
  guarded: boolean,
): Promise<void> {
  const template = openDatabase({ ...address, database: name }, { max: 1 });
  try {
    await template.session(async (session) => {
      await session.query(sql`create schema if not exists rowhouse`);
      await session.query(sql`set search_path = rowhouse, pg_catalog`);
      await migrate(session, migrations);
      if (guarded) await session.query(sql.script(guards));
    });
  } finally {
    await template.end();
  }
}

function checksum(migrations: Migration[], guarded: boolean): string {
  const content = JSON.stringify([migrations.map((migration) => migration.checksum), guarded && guards]);
  return createHash('sha256').update(content).digest('hex').slice(0, 16);
}

/** Takes a database away from PUBLIC, and only then lets anybody in. */
export async function openToUs(maintenance: Database, name: string): Promise<void> {
  await maintenance.change(sql`revoke all on database ${sql.id(name)} from public`);
  await maintenance.change(sql`alter database ${sql.id(name)} with allow_connections true`);
}

/** `create database` from the template; false if the database was there already. */
export async function createFromTemplate(
  maintenance: Database,
  name: string,
  template: string,
): Promise<boolean> {
  try {
    // Closed until its doors are set: a new database lets every role in, and a session that got in would stay.
    await maintenance.change(
      sql`create database ${sql.id(name)} template ${sql.id(template)} allow_connections false`,
    );
    return true;
  } catch (error) {
    if (isState(error, sqlstate.duplicateDatabase)) return false;
    throw error;
  }
}
