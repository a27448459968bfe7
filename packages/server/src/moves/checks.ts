// What keeps a project from being moved, found before anything waits for it.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Control } from '../control/control.ts';
import { errors } from '../errors/errors.ts';
import { sql } from '../postgres/sql.ts';
import { countPrepared, dropOldRoles } from '../servers/databases/move-database.ts';
import { databaseExists } from '../servers/databases/provision.ts';
import type { Server } from '../servers/server.ts';
import { isExported } from '../transfer/export/moving.ts';

export async function checkServers(from: Server, to: Server, projectId: string): Promise<void> {
  if ((await countPrepared(from, projectId)) > 0)
    throw errors.conflict(
      'The project has prepared transactions, which cannot be moved.',
      'End them: COMMIT PREPARED or ROLLBACK PREPARED. pg_prepared_xacts lists them.',
    );
  await checkName(to, projectId);
  if ((await dropOldRoles(to, projectId)).length > 0)
    throw errors.conflict(
      'A role of this project is left on the other server, because other databases there refer to it.',
      'Choose another server, or revoke what was granted to the role.',
    );
}

/** A database that is there already is not the copy of a move. */
export async function checkName(to: Server, projectId: string): Promise<void> {
  if (await databaseExists(to, projectId))
    throw errors.conflict(
      'The other server has a database with the name of this project.',
      'The operator decides what it is: it is not in use by Rowhouse.',
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

/**
 * Called when the row of the move is there: from then on, dumps are refused (transfer/export/moving.ts). One that began before
 * must not contain what an online move adds to the project. An export as CSV is waited for, too: its locks would be in the way.
 */
export async function waitForExport(control: Control, projectId: string, signal: AbortSignal): Promise<void> {
  for (const until = performance.now() + exportMs; await isExported(control, projectId); ) {
    if (performance.now() > until)
      throw errors.projectInUse('An export of this project is running, so it cannot be moved now.', {});
    await sleep(lookMs, undefined, { signal });
  }
}
const [exportMs, lookMs] = [10 * 60_000, 500];
