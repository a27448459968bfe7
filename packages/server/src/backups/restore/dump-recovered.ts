// Dumps a project out of a server that was recovered from a backup. By a role without privileges elsewhere, as an export
// does: the recovered server has the same projects, and its superuser could read the files of the machine. Here the role also
// reads what the project has forbidden to its own role: the past cannot be granted anything any more.

import type { Database } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { type DumpServer, ensureDumpRole } from '../../servers/databases/dump-role.ts';
import { databaseOf } from '../../servers/databases/names.ts';
import { openInside, unpublish } from '../../servers/databases/publication.ts';
import type { RecoveryServer } from '../../servers/embedded/recovery-server.ts';
import { makePieces, type Native } from '../../transfer/export/export.ts';
import type { Origin } from './origin.ts';

type Options = {
  of: Origin['marks'];
  id: string;
  findNative: () => Promise<Native | null>;
  signal: AbortSignal;
};

export async function* dumpRecovered(
  { address, database }: RecoveryServer,
  { of, id, findNative, signal }: Options,
): AsyncGenerator<Uint8Array> {
  // The database is closed if the project was deleted by then.
  await database.change(sql`alter database ${sql.id(databaseOf(id))} with allow_connections true`);
  // The moment can be one during a move.
  const inside = openInside({ address }, databaseOf(id));
  await unpublish(inside).finally(() => inside.end());
  const role = await ensureDumpRole(await asDumpServer({ address, database }, of), id);
  await readEverything(database, role.user);
  yield* await makePieces('custom', { address: role, sessionName: 'rowhouse restore', signal, findNative });
}

/** As it was then: the shared roles may have been made later. */
export async function asDumpServer(
  { address, database }: Pick<RecoveryServer, 'address' | 'database'>,
  { masterKey, userRoles, installation }: Origin['marks'],
): Promise<DumpServer> {
  const rows = await database.query<{ name: string }>(
    sql`select rolname as name from pg_roles where rolname = any (${[...userRoles]}::text[])`,
  );
  const present = userRoles.filter((role) => rows.some(({ name }) => name === role));
  return { address, maintenance: database, masterKey, userRoles: present, installation };
}

/**
 * A member of pg_read_all_data also reads pg_authid, with the password verifiers of every role
 * (servers/databases/dump-role.ts). pg_dump runs no code of a project; if it ever did, that code would find none here.
 */
async function readEverything(database: Database, user: string): Promise<void> {
  await database.transaction(async (transaction) => {
    await transaction.query(sql`set local allow_system_table_mods = on`);
    await transaction.query(sql`
      update pg_authid set rolpassword = null where not rolsuper and rolname <> ${user}`);
    await transaction.query(sql`grant pg_read_all_data to ${sql.id(user)}`);
  });
}
