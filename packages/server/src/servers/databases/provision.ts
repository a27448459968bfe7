// A project's database and roles. Every step is idempotent, so an interrupted one is simply repeated.

import { errors } from '../../errors/errors.ts';
import { openInFlight } from '../../lib/in-flight.ts';
import { type Address, isState, openDatabase } from '../../postgres/admin/database.ts';
import type { WalPosition } from '../../postgres/admin/wal-position.ts';
import { type Sql, sql } from '../../postgres/sql.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { scramVerifier } from '../../postgres/wire/scram.ts';
import type { Host } from '../../postgres/wire/server-address.ts';
import { maxSessionsOfRole } from '../../settings/limits/direct-connections.ts';
import { derivePassword } from '../role-passwords.ts';
import type { Server } from '../server.ts';
import { anonymousRole, type UserRole, userRole } from '../template/shared-roles.ts';
import { createFromTemplate, openWithoutPublic } from '../template/template.ts';

/** Names are opaque: pg_database and pg_roles are readable by every project on the server. */
export const databaseOf = (id: string) => `p_${id}`;
export const roleOf = (id: string) => `p_${id}`;
export const authRoleOf = (id: string) => `p_${id}_auth`;
/** The login for requests of end users. Its only privilege is to become `authenticated`. Created on first use. */
export const userRoleOf = (id: string) => `p_${id}_user`;
/** The login for anonymous requests. A separate role, so that code run for `anon` cannot become a user by SET ROLE. */
export const anonymousRoleOf = (id: string) => `p_${id}_anon`;
/** Reads everything of the project for an export (dump-role.ts). Made when first needed. */
export const dumpRoleOf = (id: string) => `p_${id}_dump`;
/**
 * Reads the project for the other server while it is moved there (publication.ts). REPLICATION is a right on the whole server, so
 * no code of a project may run in its sessions. PostgreSQL's own receiver opens them, with an empty search_path, and the role may
 * read plain tables only.
 */
export const replicationRoleOf = (id: string) => `p_${id}_move`;
export const rolesOf = (id: string) => [
  ...[replicationRoleOf(id), dumpRoleOf(id), anonymousRoleOf(id), userRoleOf(id), authRoleOf(id), roleOf(id)],
];

/** The temporary files of one statement. Beyond this the statement fails, instead of filling the disk for all projects. */
const tempFileLimit = '1GB';

/** Creates the database and its roles, and measures the empty database. */
export async function provision(server: Server, id: string): Promise<{ emptyBytes: number }> {
  await createFromTemplate(server.maintenance, databaseOf(id), server.template);
  await ensureRoles(server, id);
  await openToRoles(server, id);
  await handOver(server, id);
  await closeToAuthRole(server, id);
  return { emptyBytes: await sizeOf(server, id) };
}

export async function ensureRoles(server: Server, id: string): Promise<void> {
  await ensureRole(server, roleOf(id));
  await ensureRole(server, authRoleOf(id));
}

/** Gives the roles their privileges on a new database, to which no role could connect before. One transaction: one flush. */
export async function openToRoles(server: Server, id: string): Promise<void> {
  const database = sql.id(databaseOf(id));
  const role = sql.id(roleOf(id));
  await openWithoutPublic(server.maintenance, databaseOf(id), [
    // The role does not own the database: an owner could lock the service out (connection limit 0, is_template).
    sql`grant connect, temporary, create on database ${database} to ${role}`,
    // create: only needed to take over the schema below.
    sql`grant connect, create on database ${database} to ${sql.id(authRoleOf(id))}`,
    sql`comment on database ${database} is ${sql.literal(commentOf(server))}`,
  ]);
  await setIfAllowed(server, [
    // For sessions without a role of the project, above all autovacuum's: it runs the project's functions in indexes.
    sql`alter database ${database} set log_min_messages = 'fatal'`,
    sql`alter database ${database} set log_min_error_statement = 'panic'`,
  ]);
}

/** Once it owns its schema, the role of end users' data needs no privilege to create another one. */
export async function closeToAuthRole(server: Server, id: string): Promise<void> {
  await all(server, [
    sql`revoke create on database ${sql.id(databaseOf(id))} from ${sql.id(authRoleOf(id))}`,
  ]);
}

export async function sizeOf(server: Server, id: string): Promise<number> {
  const [size] = await server.maintenance.query<{ bytes: number }>(
    sql`select pg_database_size(${databaseOf(id)})::float8 as bytes`,
  );
  if (!size) throw new Error('The database has no size.');
  return size.bytes;
}

export const commentOf = (server: Pick<Server, 'installation'>) => `rowhouse ${server.installation}`;

/**
 * For databases that no project ever used, and for deleted projects that can no longer be restored. PostgreSQL waits for a
 * checkpoint. `withinMs`: for a caller that does not wait for a slow one; what is left is dropped by a later call.
 */
export async function dropProvisioned(server: Server, id: string, withinMs?: number): Promise<void> {
  const drop = sql`drop database if exists ${sql.id(databaseOf(id))} with (force)`;
  if (withinMs === undefined) await all(server, [drop]);
  else await server.maintenance.query(drop, withinMs);
  for (const role of rolesOf(id)) await dropRole(server, role);
}

/**
 * Another project can grant this role a privilege in its own database, and then PostgreSQL refuses to drop the role. It loses
 * its login instead, and the background work tries again (`listRoles` finds it).
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

/** The names of the project roles of this installation. */
export async function listRoles(server: Server): Promise<string[]> {
  const rows = await server.maintenance.query<{ name: string }>(sql`
    select rolname as name from pg_roles
    where rolname like 'p\\_%' and shobj_description(oid, 'pg_authid') = ${commentOf(server)}`);
  return rows.map(({ name }) => name);
}

/** A deleted project accepts no connections, neither the service's nor direct ones. */
export async function fence(server: Server, id: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    // Before the statement below: a session of the project can hold a lock that it would wait for.
    await endSessions(server, id);
    try {
      await setConnections(server, id, false);
      await endSessions(server, id);
      return;
    } catch (error) {
      if (!isBlocked(error) || attempt === 5) throw error;
    }
  }
}

/** internalError: "tuple concurrently updated", such as when the login gate is set at the same moment. */
function isBlocked(error: unknown): boolean {
  return isState(error, sqlstate.lockNotAvailable) || isState(error, sqlstate.internalError);
}

/** Ends every session in the project's database, and every session of its roles in any database. */
export async function endSessions(server: Server, id: string): Promise<void> {
  await server.maintenance.query(sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where pid <> pg_backend_pid()
      and (datname = ${databaseOf(id)} or usename = any (${rolesOf(id)}::name[]))`);
}

export async function databaseExists(server: Server, id: string): Promise<boolean> {
  const rows = await server.maintenance.query(
    sql`select 1 from pg_database where datname = ${databaseOf(id)}`,
  );
  return rows.length > 0;
}

/** Returns false if the database no longer exists. */
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
    await endBlockers(server, id, `${name} ${version}`, () =>
      all(server, [sql`alter role ${sql.id(name)} password ${verifierOf(server, name, version)}`]),
    );
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

/** Everything needed to log in to a project's database. */
export type ProjectLogin = Readonly<{
  id: string;
  /** The server on which the database lives. */
  serverId: number;
  passwordVersion: number;
  /** The account whose share of the sessions this uses. Null: the service itself. */
  accountId: string | null;
  /** Who of those that use the project: a key, or a user. Absent: the account. */
  caller?: string | undefined;
  /** Absent: the project's own role. */
  loginAs?: 'auth' | UserLogin;
  /** The acting user, for the logins `user` and `anon`. Without one such a session can do nothing. */
  actingUser?: ActingUser;
  /** The caller allows a read to be answered by a standby. */
  staleness?: Staleness;
  /** The standby to log in to, instead of the primary. */
  standby?: Host;
}>;

/** The standby's data is at most `maxMs` old. `min`: it has everything that was committed before. */
export type Staleness = Readonly<{ maxMs: number; min: WalPosition | null }>;

type UserLogin = 'user' | 'anon';
/** A signed-in end user (`claims`: the claims of the access token, as JSON), or anonymous. */
export type ActingUser = SignedInUser | Readonly<{ role: 'anon' }>;
export type SignedInUser = Readonly<{
  role: 'authenticated';
  sessionId: string;
  userId: string;
  claims: string;
  /** Of the claims: PostgreSQL compares them with what they are now. */
  email: string;
  claimedRole: string;
}>;

export function asUser(
  { id, serverId, passwordVersion, accountId, caller: key }: ProjectLogin,
  actingUser: ActingUser,
): ProjectLogin {
  return actingUser.role === 'anon'
    ? { id, serverId, passwordVersion, accountId, caller: key, loginAs: 'anon', actingUser }
    : { id, serverId, passwordVersion, accountId, caller: actingUser.userId, loginAs: 'user', actingUser };
}

const anonymous: ActingUser = { role: 'anon' };

export function asAnonymous(project: ProjectLogin): ProjectLogin {
  return asUser(project, anonymous);
}

/** What the login becomes. */
export function roleBehind(loginAs: UserLogin): UserRole {
  return loginAs === 'anon' ? anonymousRole : userRole;
}

/** Whether the login's only privilege is to become the acting user for a transaction. */
export function isUserLogin(loginAs: ProjectLogin['loginAs']): loginAs is UserLogin {
  return loginAs === 'user' || loginAs === 'anon';
}

export function loginOf(
  server: Server,
  { id, passwordVersion, loginAs, standby }: Omit<ProjectLogin, 'serverId' | 'accountId'>,
): Address {
  const { primary, ...rest } = server.address;
  const user = loginRoleOf(id, loginAs);
  const password = derivePassword(server.masterKey, user, loginAs ? 1 : passwordVersion);
  const address = standby || !primary ? { ...rest, ...standby } : server.address;
  return { ...address, user, password, database: databaseOf(id) };
}

function loginRoleOf(id: string, loginAs: ProjectLogin['loginAs']): string {
  switch (loginAs) {
    case 'auth':
      return authRoleOf(id);
    case 'user':
      return userRoleOf(id);
    case 'anon':
      return anonymousRoleOf(id);
    default:
      return roleOf(id);
  }
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
  await all(server, [
    sql`grant ${sql.id(becomes)} to ${sql.id(role)} with inherit false, set true`,
    // Last: a session that can connect finds everything in place.
    sql`grant connect on database ${sql.id(databaseOf(id))} to ${sql.id(role)}`,
  ]);
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
    await all(server, [sql`create role ${role} ${rights}`]);
  } catch (error) {
    // uniqueViolation: another process created the role at the same moment.
    if (!isState(error, sqlstate.duplicateObject) && !isState(error, sqlstate.uniqueViolation)) throw error;
    await all(server, [sql`alter role ${role} ${rights}`]);
  }
  await all(server, [sql`comment on role ${role} is ${sql.literal(commentOf(server))}`]);
  await setIfAllowed(server, [
    sql`alter role ${role} set temp_file_limit = ${sql.literal(tempFileLimit)}`,
    sql`alter role ${role} set log_min_messages = 'fatal'`,
    sql`alter role ${role} set log_min_error_statement = 'panic'`,
  ]);
  if (!server.superuser) await all(server, [sql`grant ${role} to current_user with inherit false, set true`]);
}

/** Sets the owners of the initial objects, inside the new database, before it contains anything of the project. */
async function handOver(server: Server, id: string): Promise<void> {
  const database = openDatabase({ ...server.address, database: databaseOf(id) }, { max: 1 });
  try {
    await database.transaction(async (inside) => {
      await inside.query(sql`alter schema public owner to ${sql.id(roleOf(id))}`);
      // Before the owner changes: afterwards our role may no longer grant.
      await inside.query(sql`select auth.grant_users(${roleOf(id)})`);
      await inside.query(sql`select rowhouse.hand_over_users(${authRoleOf(id)})`);
      await inside.query(sql`set local role ${sql.id(roleOf(id))}`);
      await inside.query(sql`select rowhouse.open_to_users()`);
    });
  } finally {
    await database.end();
  }
}

/** Settings that only a superuser can change. If our role is not a superuser, the start reports their absence as a finding. */
async function setIfAllowed(server: Server, statements: Sql[]): Promise<void> {
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

async function all(server: Server, statements: Sql[]): Promise<void> {
  for (const statement of statements) await server.maintenance.change(statement);
}
