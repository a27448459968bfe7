// The role that reads a project for an export. It has the rights of the project's own roles and skips row security; it
// has no right outside of the project's database, where pg_read_all_data would have some: a member of that reads
// pg_authid, the password verifiers of every role on the server. pg_dump runs no code of a project; if it ever did, that
// code would find nothing here that an export does not hand out anyway, in a transaction that cannot write.

import { type Address, isState } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { atPrimary } from '../../postgres/wire/connect.ts';
import { scramVerifier } from '../../postgres/wire/scram.ts';
import { derivePassword } from '../role-passwords.ts';
import type { Server } from '../server.ts';
import { authRoleOf, commentOf, databaseOf, dumpRoleOf, roleOf } from './names.ts';

/** The server itself, or a copy of it that was recovered from a backup. */
export type DumpServer = Pick<Server, 'address' | 'maintenance' | 'masterKey' | 'userRoles' | 'installation'>;

/**
 * A dump uses two. A move reads sequences and unlogged tables right before one, and PostgreSQL counts a session that was closed
 * until its process has ended: with a limit of two, such a move failed now and then.
 */
const maxSessions = 6;

/** Makes the role where it is missing, or was made only in part. */
export async function ensureDumpRole(server: DumpServer, id: string): Promise<Address> {
  const name = dumpRoleOf(id);
  const login = {
    ...atPrimary(server.address),
    user: name,
    password: derivePassword(server.masterKey, name),
  };
  const address = { ...login, database: databaseOf(id) };
  const [found] = await server.maintenance.query<{ ready: boolean }>(sql`
    select has_database_privilege(oid, ${address.database}, 'connect') and rolconnlimit = ${maxSessions} as ready
    from pg_roles where rolname = ${name}`);
  if (found?.ready) return address;
  const role = sql.id(name);
  const { change } = server.maintenance;
  if (!found) await createRole(server, name, address.password);
  // Earlier versions gave it two.
  else await change(sql`alter role ${role} connection limit ${sql.script(String(maxSessions))}`);
  await change(sql`comment on role ${role} is ${sql.literal(commentOf(server))}`);
  // Users can own tables too: a trigger or a function that runs for one of them can create some.
  for (const owner of [roleOf(id), authRoleOf(id), ...server.userRoles])
    await change(sql`grant ${sql.id(owner)} to ${role} with inherit true, set false`);
  // Last: from here on the role is complete.
  await change(sql`grant connect on database ${sql.id(address.database)} to ${role}`);
  return address;
}

/** Where our own role may not give bypassrls away, tables that force row security on their owner cannot be exported. */
async function createRole(server: DumpServer, name: string, password: string): Promise<void> {
  const rights = sql`
    login nosuperuser nocreatedb nocreaterole noreplication connection limit ${sql.script(String(maxSessions))}
    password ${sql.literal(scramVerifier(password))}`;
  const { change } = server.maintenance;
  try {
    await change(sql`create role ${sql.id(name)} bypassrls ${rights}`);
  } catch (error) {
    // Another process made it at the same moment.
    if (isState(error, sqlstate.duplicateObject) || isState(error, sqlstate.uniqueViolation)) return;
    if (!isState(error, sqlstate.insufficientPrivilege)) throw error;
    await change(sql`create role ${sql.id(name)} ${rights}`);
  }
}
