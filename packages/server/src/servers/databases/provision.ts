// A project's database: making it with its roles and privileges, measuring it, and dropping it. Every step is idempotent, so an
// interrupted one is simply repeated.
import { openDatabase } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import type { Server } from '../server.ts';
import { createFromTemplate, openWithoutPublic } from '../template/template.ts';
import { authRoleOf, commentOf, databaseOf, roleOf, rolesOf } from './names.ts';
import { dropRole, ensureRoles, setIfAllowed } from './roles.ts';

/** Creates the database and its roles, and measures the empty database. */
export async function provision(server: Server, id: string): Promise<{ emptyBytes: number }> {
  await createFromTemplate(server.maintenance, databaseOf(id), server.template);
  await ensureRoles(server, id);
  await openToRoles(server, id);
  await handOver(server, id);
  await closeToAuthRole(server, id);
  return { emptyBytes: await sizeOf(server, id) };
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
  await server.maintenance.change(
    sql`revoke create on database ${sql.id(databaseOf(id))} from ${sql.id(authRoleOf(id))}`,
  );
}

export async function sizeOf(server: Server, id: string): Promise<number> {
  const [size] = await server.maintenance.query<{ bytes: number }>(
    sql`select pg_database_size(${databaseOf(id)})::float8 as bytes`,
  );
  if (!size) throw new Error('The database has no size.');
  return size.bytes;
}

/**
 * For databases that no project ever used, and for deleted projects that can no longer be restored. PostgreSQL waits for a
 * checkpoint. `withinMs`: for a caller that does not wait for a slow one; what is left is dropped by a later call.
 */
export async function dropProvisioned(server: Server, id: string, withinMs?: number): Promise<void> {
  const drop = sql`drop database if exists ${sql.id(databaseOf(id))} with (force)`;
  if (withinMs === undefined) await server.maintenance.change(drop);
  else await server.maintenance.query(drop, withinMs);
  for (const role of rolesOf(id)) await dropRole(server, role);
}

export async function databaseExists(server: Server, id: string): Promise<boolean> {
  const rows = await server.maintenance.query(
    sql`select 1 from pg_database where datname = ${databaseOf(id)}`,
  );
  return rows.length > 0;
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
