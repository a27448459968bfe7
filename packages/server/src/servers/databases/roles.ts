// The roles of a project: making them, repairing a login that PostgreSQL refuses, and dropping them. Every step is idempotent, so an
// interrupted one is simply repeated.
import { errors } from '../../errors/errors.ts';
import { openInFlight } from '../../lib/in-flight.ts';
import { isState } from '../../postgres/admin/database.ts';
import { type Sql, sql } from '../../postgres/sql.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { scramVerifier } from '../../postgres/wire/scram.ts';
import { maxSessionsOfRole } from '../../settings/limits/direct-connections.ts';
import { derivePassword } from '../role-passwords.ts';
import type { Server } from '../server.ts';
import { endSessions, isBlocked } from './connections.ts';
import { loginRoleOf, type ProjectLogin, roleBehind, type UserLogin } from './login.ts';
import { authRoleOf, commentOf, databaseOf, roleOf } from './names.ts';

/** The temporary files of one statement. Beyond this the statement fails, instead of filling the disk for all projects. */
const tempFileLimit = '1GB';

export async function ensureRoles(server: Server, id: string): Promise<void> {
  await ensureRole(server, roleOf(id));
  await ensureRole(server, authRoleOf(id));
}

/**
 * After a refused login: the role has changed its password, or (for acting users) does not exist yet or is incomplete.
 * Returns the login that is valid now.
 */
export async function restoreLogin(server: Server, project: ProjectLogin): Promise<ProjectLogin> {
  const { id, loginAs } = project;
  if (loginAs === undefined) return { ...project, passwordVersion: await resetPassword(server, id) };
  if (loginAs === 'auth')
    await endBlockers(server, id, authRoleOf(id), () => ensureRole(server, authRoleOf(id)));
  else await endBlockers(server, id, loginRoleOf(id, loginAs), () => ensureUserLogin(server, id, loginAs));
  return project;
}

/** All projects share the roles `authenticated` and `anon`, so they get no privileges outside a project's own database. */
async function ensureUserLogin(server: Server, id: string, loginAs: UserLogin): Promise<void> {
  const becomes = roleBehind(loginAs);
  if (!server.userRoles.includes(becomes))
    throw errors.unavailable(`the role ${becomes} cannot be used on this server`);
  const role = loginRoleOf(id, loginAs);
  await ensureRole(server, role);
  await server.maintenance.change(
    sql`grant ${sql.id(becomes)} to ${sql.id(role)} with inherit false, set true`,
  );
  // Last: a session that can connect finds everything in place.
  await server.maintenance.change(
    sql`grant connect on database ${sql.id(databaseOf(id))} to ${sql.id(role)}`,
  );
}

export function verifierOf(server: Server, name: string, passwordVersion = 1): Sql {
  return sql.literal(scramVerifier(derivePassword(server.masterKey, name, passwordVersion)));
}

async function ensureRole(server: Server, name: string): Promise<void> {
  const role = sql.id(name);
  const rights = sql`
    login nosuperuser nocreatedb nocreaterole noreplication nobypassrls connection limit ${sql.script(String(maxSessionsOfRole))}
    password ${verifierOf(server, name)}`;
  try {
    await server.maintenance.change(sql`create role ${role} ${rights}`);
  } catch (error) {
    // uniqueViolation: another process created the role at the same moment.
    if (!isState(error, sqlstate.duplicateObject) && !isState(error, sqlstate.uniqueViolation)) throw error;
    await server.maintenance.change(sql`alter role ${role} ${rights}`);
  }
  await server.maintenance.change(sql`comment on role ${role} is ${sql.literal(commentOf(server))}`);
  await setIfAllowed(server, [
    sql`alter role ${role} set temp_file_limit = ${sql.literal(tempFileLimit)}`,
    sql`alter role ${role} set log_min_messages = 'fatal'`,
    sql`alter role ${role} set log_min_error_statement = 'panic'`,
  ]);
  if (!server.superuser)
    await server.maintenance.change(sql`grant ${role} to current_user with inherit false, set true`);
}

/**
 * A role may change its own password. This sets it back to the one derived from the master key and the version in the
 * project's row, and reads the row again afterwards: a rotation may have happened in between. Returns the version.
 */
export async function resetPassword(server: Server, id: string): Promise<number> {
  const name = roleOf(id);
  for (let done: number | null = null; ; ) {
    const [row] = await server.control.query<{ version: number }>(
      sql`select password_version as version from projects where id = ${id}`,
    );
    if (!row) throw errors.unavailable(`there is no project ${id}`);
    const { version } = row;
    if (version === done) return version;
    await endBlockers(server, id, `${name} ${version}`, async () => {
      await server.maintenance.change(
        sql`alter role ${sql.id(name)} password ${verifierOf(server, name, version)}`,
      );
    });
    done = version;
  }
}

/** Repeats `act`, and ends sessions of the project that block it. Concurrent calls for the same `what` share one attempt. */
function endBlockers(server: Server, id: string, what: string, act: () => Promise<void>): Promise<void> {
  return inFlight(what, async () => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await act();
      } catch (error) {
        if (!isBlocked(error) || attempt === 5) throw error;
        await endSessions(server, id);
      }
    }
  });
}

const inFlight = openInFlight<void>();

/**
 * Another project can grant this role a privilege in its own database, and then PostgreSQL refuses to drop the role. It loses
 * its login instead, and the background work tries again (`listRoles` finds it).
 */
export async function dropRole(server: Server, name: string): Promise<boolean> {
  try {
    await server.maintenance.change(sql`drop role if exists ${sql.id(name)}`);
    return true;
  } catch (error) {
    if (!isState(error, sqlstate.dependentObjects)) throw error;
    await server.maintenance.change(sql`alter role ${sql.id(name)} nologin`);
    return false;
  }
}

/** The names of the project roles of this installation. */
export async function listRoles(server: Server): Promise<string[]> {
  const rows = await server.maintenance.query<{ name: string }>(sql`
    select rolname as name from pg_roles
    where rolname like 'p\\_%' and shobj_description(oid, 'pg_authid') = ${commentOf(server)}`);
  return rows.map(({ name }) => name);
}

/** Settings that only a superuser can change. If our role is not a superuser, the start reports their absence as a finding. */
export async function setIfAllowed(server: Server, statements: Sql[]): Promise<void> {
  if (server.superuser) {
    await server.maintenance.transaction(async (transaction) => {
      for (const statement of statements) await transaction.query(statement);
    });
    return;
  }
  for (const statement of statements) {
    await server.maintenance.change(statement).catch((error) => {
      if (!isState(error, sqlstate.insufficientPrivilege)) throw error;
    });
  }
}
