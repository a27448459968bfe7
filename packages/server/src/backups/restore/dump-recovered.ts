// Dumps a project out of a server that was recovered from a backup. By a role without privileges elsewhere, as an export
// does: the recovered server has the same projects, and its superuser could read the files of the machine.
import { makePieces, type Native } from '../../dumps/export.ts';
import { ensureDumpRole } from '../../engine/dump-role.ts';
import { databaseOf } from '../../engine/provision.ts';
import type { RecoveryServer } from '../../engine/recovery-server.ts';
import type { Server } from '../../engine/servers.ts';
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
  const role = await ensureDumpRole(
    { address, maintenance: database, masterKey, userRoles, installation },
    id,
  );
  yield* await makePieces('custom', { address: role, sessionName: 'rowhouse restore', signal, findNative });
}
