// Whether a project's database accepts connections, and the end of those that are open.
import { isState } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import type { Server } from '../server.ts';
import { databaseOf, rolesOf } from './names.ts';

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

/** Returns false if the database no longer exists. */
export async function unfence(server: Server, id: string): Promise<boolean> {
  return setConnections(server, id, true);
}

async function setConnections(server: Server, id: string, allow: boolean): Promise<boolean> {
  try {
    const value = allow ? sql`true` : sql`false`;
    await server.maintenance.change(
      sql`alter database ${sql.id(databaseOf(id))} with allow_connections ${value}`,
    );
    return true;
  } catch (error) {
    if (isState(error, sqlstate.undefinedDatabase)) return false;
    throw error;
  }
}

/** Ends every session in the project's database, and every session of its roles in any database. */
export async function endSessions(server: Server, id: string): Promise<void> {
  await server.maintenance.query(sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where pid <> pg_backend_pid()
      and (datname = ${databaseOf(id)} or usename = any (${rolesOf(id)}::name[]))`);
}

/** internalError: "tuple concurrently updated", such as when the login gate is set at the same moment. */
export function isBlocked(error: unknown): boolean {
  return isState(error, sqlstate.lockNotAvailable) || isState(error, sqlstate.internalError);
}
