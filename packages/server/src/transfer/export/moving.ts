// Keeps dumps and online moves of a project apart: a move adds publications and replica identities to the project for its time, and
// a dump would contain them. Each announces itself before it looks for the other, so that at least one of them sees the other: an
// export takes its lock, then looks for a move; a move inserts its row, then waits for the export.

import { isHeld, locks, tryLock } from '../../control/lock-names.ts';
import { errors } from '../../errors/errors.ts';
import type { Queryable } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { hasTraces } from '../../servers/databases/publication.ts';
import type { Server } from '../../servers/server.ts';

/** In all processes: the lock is a session's in the control database, so it ends with the process that holds it. */
export async function lockExport(session: Queryable, projectId: string): Promise<void> {
  if (!(await tryLock(session, locks.export(projectId)))) throw errors.exportRunning();
}

export async function isExported(control: Queryable, projectId: string): Promise<boolean> {
  const rows = await control.query(sql`select where ${isHeld(locks.export(projectId))}`);
  return rows.length > 0;
}

/** After `lockExport`. In the other states, nothing of the move is left in the copy that counts, or `refuseTraces` finds it. */
export async function refuseWhileMoving(control: Queryable, projectId: string): Promise<void> {
  const [move] = await control.query<{ job: string }>(sql`
    select job_id as job from moves
    where project_id = ${projectId} and state in ('copying', 'undoing', 'switched')`);
  if (move) throw errors.exportMoving(move.job);
}

/**
 * Refuses while traces of an undone move are left. They stay for as long as a statement of the project holds a lock on a table.
 */
export async function refuseTraces(server: Server, projectId: string): Promise<void> {
  if (await hasTraces(server, projectId)) throw errors.exportTidying();
}
