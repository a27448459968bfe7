// What keeps a project from being moved, found before anything waits for it.
import type { Control } from '../control/control.ts';
import { countPrepared, dropOldRoles } from '../engine/move-database.ts';
import { databaseExists } from '../engine/provision.ts';
import type { Server } from '../engine/servers.ts';
import { errors } from '../errors.ts';
import { sql } from '../postgres/sql.ts';

export async function checkServers(from: Server, to: Server, projectId: string): Promise<void> {
  if ((await countPrepared(from, projectId)) > 0)
    throw errors.conflict(
      'The project has prepared transactions, which cannot be moved.',
      'End them: COMMIT PREPARED or ROLLBACK PREPARED. pg_prepared_xacts lists them.',
    );
  if (await databaseExists(to, projectId))
    throw errors.conflict(
      'The other server has a database with the name of this project.',
      'The operator decides what it is: it is not in use by Rowhouse.',
    );
  if ((await dropOldRoles(to, projectId)).length > 0)
    throw errors.conflict(
      'A role of this project is left on the other server, because other databases there refer to it.',
      'Choose another server, or revoke what was granted to the role.',
    );
}

/** An exchange of databases that a crash interrupted is completed by object ids, which another server does not have. */
export async function checkSwaps(control: Control, projectId: string): Promise<void> {
  const pending = await control.query(
    sql`select from swaps where project_id = ${projectId} or other_id = ${projectId}`,
  );
  if (pending.length > 0)
    throw errors.conflict(
      'A reset, promotion or restore of this project is being completed.',
      'Try again in a minute.',
    );
}
