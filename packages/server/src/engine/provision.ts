// A project's database and roles. Every step can be repeated, so an interrupted one is simply done again.
import { isState, openDatabase } from '../postgres/database.ts';
import { scramVerifier } from '../postgres/scram.ts';
import { type Sql, sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';
import { derivePassword } from './role-passwords.ts';
import type { Server } from './servers.ts';
import { createFromTemplate } from './template.ts';

/** Names are opaque: pg_database and pg_roles are readable by every project on the server. */
export const databaseOf = (id: string) => `p_${id}`;
export const roleOf = (id: string) => `p_${id}`;
export const authRoleOf = (id: string) => `p_${id}_auth`;

/** One statement's temporary files; more is an error for that statement instead of a full disk for everybody. */
const tempFileLimit = '1GB';

/** Makes the database and its roles, and measures it empty. */
export async function provision(server: Server, id: string): Promise<{ emptyBytes: number }> {
  await ensureRole(server, roleOf(id));
  await ensureRole(server, authRoleOf(id));
  await createFromTemplate(server.maintenance, databaseOf(id), server.template);
  const database = sql.id(databaseOf(id));
  const role = sql.id(roleOf(id));
  const authRole = sql.id(authRoleOf(id));
  await all(server, [
    sql`revoke all on database ${database} from public`,
    // Not its owner: an owner could lock the service out (connection limit 0, is_template).
    sql`grant connect, temporary, create on database ${database} to ${role}`,
    // create: only for taking over the schema below.
    sql`grant connect, create on database ${database} to ${authRole}`,
    sql`comment on database ${database} is ${sql.literal(commentOf(server))}`,
  ]);
  await handOver(server, id);
  await all(server, [sql`revoke create on database ${database} from ${authRole}`]);
  const [size] = await server.maintenance.query<{ bytes: number }>(
    sql`select pg_database_size(${databaseOf(id)})::float8 as bytes`,
  );
  if (!size) throw new Error('The new database has no size.');
  return { emptyBytes: size.bytes };
}

export const commentOf = (server: Pick<Server, 'installation'>) => `rowhouse ${server.installation}`;

/** For databases that were never a project's, and for projects whose time to be restored is over. */
export async function dropProvisioned(server: Server, id: string): Promise<void> {
  await all(server, [sql`drop database if exists ${sql.id(databaseOf(id))} with (force)`]);
  for (const role of [authRoleOf(id), roleOf(id)]) await dropRole(server, role);
}

/**
 * A neighbour can grant this role something in its own database, and then PostgreSQL does not let it go. It is shut
 * out instead; the keeper tries again (`listRoles` finds it).
 */
export async function dropRole(server: Server, name: string): Promise<boolean> {
  try {
    await all(server, [sql`drop role if exists ${sql.id(name)}`]);
    return true;
  } catch (error) {
    if (!isState(error, sqlstate.dependentObjects)) throw error;
    await all(server, [sql`alter role ${sql.id(name)} nologin`]);
    return false;
  }
}

/** Roles of this installation, by what follows p_ in their names. */
export async function listRoles(server: Server): Promise<string[]> {
  const rows = await server.maintenance.query<{ name: string }>(sql`
    select rolname as name from pg_roles
    where rolname like 'p\\_%' and shobj_description(oid, 'pg_authid') = ${commentOf(server)}`);
  return rows.map(({ name }) => name);
}

/** A deleted project takes no connections, neither ours nor a direct one. */
export async function fence(server: Server, id: string): Promise<void> {
  await setConnections(server, id, false);
  await server.maintenance.query(sql`
    select pg_terminate_backend(pid) from pg_stat_activity where datname = ${databaseOf(id)}`);
}

/** False if there is no such database any more. */
export async function unfence(server: Server, id: string): Promise<boolean> {
  return setConnections(server, id, true);
}

async function setConnections(server: Server, id: string, allow: boolean): Promise<boolean> {
  try {
    const value = allow ? sql`true` : sql`false`;
    await all(server, [sql`alter database ${sql.id(databaseOf(id))} with allow_connections ${value}`]);
    return true;
  } catch (error) {
    if (isState(error, sqlstate.undefinedDatabase)) return false;
    throw error;
  }
}

/** A role may change its own password; this sets it back to the one that follows from the master key. */
export async function resetPassword(server: Server, name: string): Promise<void> {
  await all(server, [sql`alter role ${sql.id(name)} password ${passwordOf(server, name)}`]);
}

function passwordOf(server: Server, name: string): Sql {
  return sql.literal(scramVerifier(derivePassword(server.masterKey, name)));
}

async function ensureRole(server: Server, name: string): Promise<void> {
  const role = sql.id(name);
  const rights = sql`
    login nosuperuser nocreatedb nocreaterole noreplication nobypassrls password ${passwordOf(server, name)}`;
  try {
    await all(server, [sql`create role ${role} ${rights}`]);
  } catch (error) {
    if (!isState(error, sqlstate.duplicateObject)) throw error;
    await all(server, [sql`alter role ${role} ${rights}`]);
  }
  const settings: Sql[] = [
    sql`comment on role ${role} is ${sql.literal(commentOf(server))}`,
    sql`alter role ${role} set temp_file_limit = ${sql.literal(tempFileLimit)}`,
    sql`alter role ${role} set log_min_messages = 'fatal'`,
    sql`alter role ${role} set log_min_error_statement = 'panic'`,
  ];
  for (const setting of settings) {
    await server.maintenance.change(setting).catch((error) => {
      // Already among the server's findings, which the start reports.
      if (server.superuser || !isState(error, sqlstate.insufficientPrivilege)) throw error;
    });
  }
  if (!server.superuser) await all(server, [sql`grant ${role} to current_user with inherit false, set true`]);
}

/** Inside the new database, before anything of a project's own is there: who owns what it was born with. */
async function handOver(server: Server, id: string): Promise<void> {
  const database = openDatabase({ ...server.address, database: databaseOf(id) }, { max: 1 });
  try {
    await database.change(sql`alter schema public owner to ${sql.id(roleOf(id))}`);
    await database.change(sql`alter schema auth owner to ${sql.id(authRoleOf(id))}`);
  } finally {
    await database.end();
  }
}

async function all(server: Server, statements: Sql[]): Promise<void> {
  for (const statement of statements) await server.maintenance.change(statement);
}
