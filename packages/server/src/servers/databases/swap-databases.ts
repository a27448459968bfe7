// Exchanges the databases of two projects, with their roles, by renaming both. Everything that names a project by its id
// stays as it is: keys, tokens, connection strings. One transaction, so that it happens completely or not at all.
import { locks, takeLockForTransaction } from '../../control/lock-names.ts';
import { type Database, isState, type Queryable } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import type { Server } from '../server.ts';
import { databaseOf, roleOf, rolesOf } from './names.ts';
import { verifierOf } from './roles.ts';

type Project = { id: string; passwordVersion: number };

/** Nothing may be connected to either database. Logins wait, and those that have begun fail: the name is another's now. */
export async function swapDatabases(server: Server, one: Project, other: Project): Promise<void> {
  await server.maintenance.transaction(async (transaction) => {
    await takeLockForTransaction(transaction, locks.swap(one.id));
    const rename = (kind: 'database' | 'role', from: string, to: string) =>
      transaction.query(
        sql`alter ${kind === 'database' ? sql`database` : sql`role`} ${sql.id(from)} rename to ${sql.id(to)}`,
      );
    const between = `${databaseOf(one.id)}_swap`;
    const roles = await existingRoles(transaction, [...rolesOf(one.id), ...rolesOf(other.id)]);
    for (const name of rolesOf(one.id)) {
      const partner = name.replace(roleOf(one.id), roleOf(other.id));
      if (roles.has(name)) await rename('role', name, between);
      if (roles.has(partner)) await rename('role', partner, name);
      if (roles.has(name)) await rename('role', between, partner);
    }
    // Passwords are derived from the names.
    for (const project of [one, other]) {
      for (const name of await existingRoles(transaction, rolesOf(project.id))) {
        const version = name === roleOf(project.id) ? project.passwordVersion : 1;
        await transaction.query(
          sql`alter role ${sql.id(name)} password ${verifierOf(server, name, version)}`,
        );
      }
    }
    // Last: from the first of these on, logins wait for the end, and find that the name has become another database's.
    await rename('database', databaseOf(one.id), between);
    await rename('database', databaseOf(other.id), databaseOf(one.id));
    await rename('database', between, databaseOf(other.id));
    if (server.superuser) await endWaitingLogins(transaction, [one, other]);
  });
}

/**
 * A login that waited fails with "database does not exist", which a client takes for lasting. Ended before, it gets 57P01, and the
 * client connects again. Only logins: they wait for this mode of the lock, and their session has not begun. Before PostgreSQL 18,
 * pg_stat_activity lists it only then. What else waits, such as ALTER DATABASE of the service itself, finds its database afterwards.
 */
async function endWaitingLogins(transaction: Queryable, projects: readonly Project[]): Promise<void> {
  await transaction.query(sql`
    select pg_terminate_backend(locks.pid)
    from pg_locks as locks join pg_database as databases on databases.oid = locks.objid
      left join pg_stat_activity as session on session.pid = locks.pid
    where locks.locktype = 'object' and locks.classid = 'pg_database'::regclass and not locks.granted
      and locks.mode = 'RowExclusiveLock'
      and (session.pid is null or session.backend_type = 'client backend' and session.state = 'starting')
      and databases.datname = any (${projects.map(({ id }) => databaseOf(id))}::name[])`);
}

/**
 * Which database the project has, after the end of an exchange that is under way: if the connection breaks at the commit,
 * PostgreSQL can still be about to complete it. `id`: as `one` of swapDatabases.
 */
export function settledOid(server: Server, id: string): Promise<number | null> {
  return server.maintenance.transaction(async (transaction) => {
    await takeLockForTransaction(transaction, locks.swap(id));
    return oidOf(transaction, id);
  });
}

/** Which database the project has now. null: none. */
export function databaseOid(server: Server, id: string): Promise<number | null> {
  return oidOf(server.maintenance, id);
}

async function oidOf(database: Queryable, id: string): Promise<number | null> {
  const [row] = await database.query<{ oid: number }>(
    sql`select oid::int8::float8 as oid from pg_database where datname = ${databaseOf(id)}`,
  );
  return row?.oid ?? null;
}

/** A session is connected to the database, or ALTER DATABASE runs. */
export function isInUse(error: unknown): boolean {
  return isState(error, sqlstate.objectInUse) || isState(error, sqlstate.lockNotAvailable);
}

async function existingRoles(database: Queryable | Database, names: readonly string[]): Promise<Set<string>> {
  const rows = await database.query<{ name: string }>(
    sql`select rolname as name from pg_roles where rolname = any (${[...names]}::name[])`,
  );
  return new Set(rows.map(({ name }) => name));
}
