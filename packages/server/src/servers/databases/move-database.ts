// The steps of a move on the two servers. Each is one transaction or can be repeated; moves/README.md has their order.
import { errors } from '../../errors/errors.ts';
import { isState, type Queryable } from '../../postgres/admin/database.ts';
import { type Sql, sql } from '../../postgres/sql.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import type { Server } from '../server.ts';
import { anonymousRoleOf, authRoleOf, commentOf, databaseOf, roleOf, rolesOf, userRoleOf } from './names.ts';
import { dropProvisioned } from './provision.ts';
import { dropReplication, endReplication, stopReplication } from './publication.ts';
import { dropRole, verifierOf } from './roles.ts';
import { dropSubscriptions } from './subscription.ts';

/** The database of a project that is being moved, on the source. No login of the project or of the service uses this name. */
export const movingDatabaseOf = (id: string) => `${databaseOf(id)}_moving`;

const loginsOf = (id: string) => [roleOf(id), authRoleOf(id), userRoleOf(id), anonymousRoleOf(id)];

/**
 * Closes the source. By its name, because a process that has not heard of the move could grant CONNECT again
 * (`restoreLogin`), under the usual name alone. PostgreSQL renames no database that has a session. The
 * database of a suspended account accepts no connections; under this name it does, so that it can be copied.
 */
export async function closeSource(server: Server, id: string): Promise<void> {
  await endSessionsIn(server, databaseOf(id), autovacuum);
  await server.maintenance.transaction(async (transaction) => {
    const [name, moving] = [sql.id(databaseOf(id)), sql.id(movingDatabaseOf(id))];
    for (const role of await existing(transaction, loginsOf(id)))
      await transaction.query(sql`revoke connect on database ${name} from ${sql.id(role)}`);
    await transaction.query(sql`alter database ${name} rename to ${moving}`);
    await transaction.query(sql`alter database ${moving} with allow_connections true`);
  });
}

/**
 * Undoes `closeSource`. Does nothing if it did not take place. Requests may wait for this: no more than has to be. `isClosed`: it
 * accepted no connections before.
 */
export async function reopenSource(server: Server, id: string, isClosed: boolean): Promise<void> {
  const { maintenance } = server;
  if (!(await hasDatabase(maintenance, movingDatabaseOf(id)))) return;
  // Its senders are sessions, with which PostgreSQL renames no database.
  await stopReplication(server, id);
  await endSessionsIn(server, movingDatabaseOf(id));
  await maintenance.transaction(async (transaction) => {
    const [name, moving] = [sql.id(databaseOf(id)), sql.id(movingDatabaseOf(id))];
    if (isClosed) await transaction.query(sql`alter database ${moving} with allow_connections false`);
    await transaction.query(sql`alter database ${moving} rename to ${name}`);
    for (const role of await existing(transaction, loginsOf(id)))
      await transaction.query(sql`grant connect on database ${name} to ${sql.id(role)}`);
  });
}

/**
 * When the project can be used again. A statement that holds a lock on a table for long does not keep the move from being undone:
 * the slots are gone by then, and the background work tries the rest again.
 */
export async function tidySource(server: Server, id: string): Promise<void> {
  await endReplication(server, id).catch((error) => {
    if (!isState(error, sqlstate.lockNotAvailable)) throw error;
  });
}

/** Passwords are derived from the names. Each takes some milliseconds, so those that every project has are made before the pause. */
export function verifiersOf(server: Server, id: string, passwordVersion: number): (role: string) => Sql {
  const make = (role: string) => verifierOf(server, role, role === roleOf(id) ? passwordVersion : 1);
  const made = new Map([roleOf(id), authRoleOf(id)].map((role) => [role, make(role)]));
  return (role) => made.get(role) ?? make(role);
}

/** The copy gets the names of the project. It accepts no connections before it counts. */
export async function nameTarget(
  server: Server,
  id: string,
  copyId: string,
  verifiers: (role: string) => Sql,
): Promise<void> {
  await server.maintenance.transaction(async (transaction) => {
    const copy = sql.id(databaseOf(copyId));
    await transaction.query(sql`alter database ${copy} with allow_connections false`);
    await transaction.query(sql`alter database ${copy} rename to ${sql.id(databaseOf(id))}`);
    for (const name of await existing(transaction, rolesOf(copyId))) {
      const renamed = name.replace(roleOf(copyId), roleOf(id));
      await transaction.query(sql`alter role ${sql.id(name)} rename to ${sql.id(renamed)}`);
      await transaction.query(sql`alter role ${sql.id(renamed)} password ${verifiers(renamed)}`);
    }
  });
}

/** After the switch: the source no longer counts. */
export async function dropSource(server: Server, id: string): Promise<void> {
  const moving = sql.id(movingDatabaseOf(id));
  await dropReplication(server, id);
  await server.maintenance.change(sql`drop database if exists ${moving} with (force)`);
  // A role that other projects have granted something stays, without its login.
  if (!(await hasDatabase(server.maintenance, databaseOf(id))))
    for (const role of rolesOf(id)) await dropRole(server, role);
}

/** Drops the copy of a move that is undone, under whichever name it has. A database that the move did not create stays. */
export async function dropTarget(server: Server, id: string, copyId: string): Promise<void> {
  await takeNameBack(server, id, copyId);
  // PostgreSQL drops no database with a subscription.
  await dropSubscriptions(server, databaseOf(copyId));
  await dropProvisioned(server, copyId);
}

/**
 * Undoes the renaming of `nameTarget`, so that nothing is dropped under the name of the project. The copy is there under one name
 * only, belongs to this installation, and accepts no connections before it counts. Any other database is not the move's.
 */
async function takeNameBack(server: Server, id: string, copyId: string): Promise<void> {
  const { maintenance } = server;
  if (await hasDatabase(maintenance, databaseOf(copyId))) return;
  const [named] = await maintenance.query(sql`
    select from pg_database
    where datname = ${databaseOf(id)} and not datallowconn
      and shobj_description(oid, 'pg_database') = ${commentOf(server)}`);
  if (!named) return;
  await maintenance.transaction(async (transaction) => {
    const [name, copy] = [databaseOf(id), databaseOf(copyId)];
    await transaction.query(sql`alter database ${sql.id(name)} rename to ${sql.id(copy)}`);
    // Behind the lock that the renaming takes: nobody can open it from here on.
    const [open] = await transaction.query(
      sql`select from pg_database where datname = ${copy} and datallowconn`,
    );
    if (open) throw errors.unavailable(`the database ${name} on ${server.name} was opened a moment ago`);
    for (const role of await existing(transaction, rolesOf(id))) {
      const renamed = role.replace(roleOf(id), roleOf(copyId));
      await transaction.query(sql`alter role ${sql.id(role)} rename to ${sql.id(renamed)}`);
    }
  });
}

/** Roles that an earlier move away from this server could not drop. Returns those that still cannot be dropped. */
export async function dropOldRoles(server: Server, id: string): Promise<string[]> {
  const left: string[] = [];
  for (const role of await existing(server.maintenance, rolesOf(id)))
    if (!(await dropRole(server, role))) left.push(role);
  return left;
}

/** A prepared transaction would commit behind the copy. */
export async function countPrepared({ maintenance }: Server, id: string): Promise<number> {
  const [row] = await maintenance.query<{ count: number }>(
    sql`select count(*)::int as count from pg_prepared_xacts where database = ${databaseOf(id)}`,
  );
  return row?.count ?? 0;
}

/**
 * Sessions that are closing take a moment to disappear, and PostgreSQL looks again only every 100 ms. It ends autovacuum itself, and
 * waits as long. Only a superuser may do that instead.
 */
export async function endSessionsIn(
  { maintenance, superuser }: Server,
  database: string,
  kinds: readonly string[] = ['client backend', ...autovacuum],
): Promise<void> {
  const until = performance.now() + endMs;
  const ours = superuser ? kinds : kinds.filter((kind) => !autovacuum.includes(kind));
  for (;;) {
    const rows = await maintenance.query(sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = ${database} and backend_type = any (${[...ours]}::text[])`);
    if (rows.length === 0 || performance.now() > until) return;
    await new Promise((resolve) => setTimeout(resolve, lookMs));
  }
}
const autovacuum = ['autovacuum worker'];
const [endMs, lookMs] = [2_000, 4];

async function hasDatabase(maintenance: Queryable, name: string): Promise<boolean> {
  return (await maintenance.query(sql`select from pg_database where datname = ${name}`)).length > 0;
}

async function existing(queryable: Queryable, names: readonly string[]): Promise<string[]> {
  const rows = await queryable.query<{ name: string }>(
    sql`select rolname as name from pg_roles where rolname = any (${[...names]}::name[])`,
  );
  return rows.map(({ name }) => name);
}
