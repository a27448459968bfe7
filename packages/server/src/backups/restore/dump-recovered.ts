// Dumps a project out of a server that was recovered from a backup. By a role without privileges elsewhere, as an export
// does: the recovered server has the same projects, and its superuser could read the files of the machine. Here the role also
// reads what the project has forbidden to its own role: the past cannot be granted anything any more.
import { makePieces, type Native } from '../../dumps/export.ts';
import { ensureDumpRole } from '../../engine/dump-role.ts';
import { databaseOf } from '../../engine/provision.ts';
import { openInside, unpublish } from '../../engine/publication.ts';
import type { RecoveryServer } from '../../engine/recovery-server.ts';
import type { Server } from '../../engine/servers.ts';
import type { Database } from '../../postgres/database.ts';
import { sql } from '../../postgres/sql.ts';

type Options = {
  /** The server from which the backup was taken. */
  of: Server;
  id: string;
  findNative: () => Promise<Native | null>;
  signal: AbortSignal;
};

export async function* dumpRecovered(
  { address, database }: RecoveryServer,
  { of, id, findNative, signal }: Options,
): AsyncGenerator<Uint8Array> {
  const { masterKey, userRoles, installation } = of;
  // Of a project that was deleted by then, the database is closed.
  await database.change(sql`alter database ${sql.id(databaseOf(id))} with allow_connections true`);
  // The moment can be one during a move.
  const inside = openInside({ address }, databaseOf(id));
  await unpublish(inside).finally(() => inside.end());
  const role = await ensureDumpRole(
    { address, maintenance: database, masterKey, userRoles, installation },
    id,
  );
  await readEverything(database, role.user);
  yield* await makePieces('custom', { address: role, sessionName: 'rowhouse restore', signal, findNative });
}

/**
 * A member of pg_read_all_data also reads pg_authid, with the password verifiers of every role (engine/dump-role.ts). pg_dump runs
 * no code of a project; if it ever did, that code would find none here.
 */
async function readEverything(database: Database, user: string): Promise<void> {
  await database.transaction(async (transaction) => {
    await transaction.query(sql`set local allow_system_table_mods = on`);
    await transaction.query(sql`
      update pg_authid set rolpassword = null where not rolsuper and rolname <> ${user}`);
    await transaction.query(sql`grant pg_read_all_data to ${sql.id(user)}`);
  });
}
