// Takes a move to its end, step by step (README.md). The process that moves a project calls this, and so does the background
// work for a move whose process died.
import type { Control } from '../control/control.ts';
import { errors } from '../errors/errors.ts';
import { sql } from '../postgres/sql.ts';
import { findClosed, settleFence } from '../projects/fence.ts';
import { dropSource, dropTarget, reopenSource, tidySource } from '../servers/databases/move-database.ts';
import { commentOf } from '../servers/databases/names.ts';
import { listReplicated } from '../servers/databases/publication.ts';
import type { Server } from '../servers/server.ts';
import {
  deleteMove,
  findMove,
  findMoves,
  locateProject,
  type MoveRow,
  type MoveState,
  noteDone,
  setState,
  withMoveLock,
} from './rows.ts';

/** The server on which the next step of a state takes place. `copying` has none: it is only marked. */
export const actsOn: Record<MoveState, 'fromServer' | 'toServer' | null> = {
  copying: null,
  undoing: 'fromServer',
  reopened: 'toServer',
  switched: 'toServer',
  opened: 'fromServer',
};

/** One step. `server`: the one on which the state acts. */
export async function takeStep(control: Control, server: Server, move: MoveRow): Promise<void> {
  const { projectId, copyId } = move;
  switch (move.state) {
    case 'copying':
      // Before anything is undone: from now on the process that copied cannot switch.
      await setState(control, move, 'copying', 'undoing');
      return;
    case 'undoing':
      await reopen(control, server, projectId);
      await setState(control, move, 'undoing', 'reopened');
      return;
    case 'reopened':
      await checkDoesNotCount(control, server, projectId);
      await dropTarget(server, projectId, copyId);
      await control.query(sql`delete from spares where id = ${copyId}`);
      await deleteMove(control, move);
      return;
    case 'switched':
      await settleFence({ control, server }, projectId);
      await setState(control, move, 'switched', 'opened');
      return;
    case 'opened':
      await checkDoesNotCount(control, server, projectId);
      await dropSource(server, projectId);
      await deleteMove(control, move);
  }
}

/** The source counts again. It stays closed if the project was deleted meanwhile, or if its account is suspended. */
async function reopen(control: Control, server: Server, projectId: string): Promise<void> {
  await reopenSource(server, projectId, (await findClosed(control, projectId)) ?? true);
  await tidySource(server, projectId);
  await settleFence({ control, server }, projectId);
}

/** While requests wait. The rest of `reopen` follows when they go on. */
export async function openAgain(control: Control, server: Server, projectId: string): Promise<void> {
  await reopenSource(server, projectId, (await findClosed(control, projectId)) ?? true);
  await settleFence({ control, server }, projectId);
}

/** A second wall in front of what drops a database. */
async function checkDoesNotCount(control: Control, server: Server, projectId: string): Promise<void> {
  const [row] = await control.query<{ serverId: number }>(
    sql`select server_id as "serverId" from projects where id = ${projectId}`,
  );
  if (row?.serverId === server.id)
    throw errors.unavailable(`the copy of ${projectId} on ${server.name} counts and is not dropped`);
}

/** One pass of the background work: the steps that take place on this server. */
export async function settleMoves({ control, server }: { control: Control; server: Server }): Promise<void> {
  const isDue = ({ state, ...move }: MoveRow) =>
    state === 'copying' || move[actsOn[state] ?? 'fromServer'] === server.id;
  const due = (await findMoves(control, server.id)).filter(isDue);
  await forEach(due, ({ projectId }) =>
    withMoveLock(control, projectId, async () => {
      for (;;) {
        const move = await findMove(control, projectId);
        if (!move) return;
        const acting = actsOn[move.state];
        if (acting && move[acting] !== server.id) return;
        if (move.state === 'opened') await noteDone(control, move);
        await takeStep(control, server, move);
      }
    }),
  );
}

/** One that fails does not hold up the others, which may be closed until their turn comes. The first failure is thrown in the end. */
async function forEach<T>(items: Iterable<T>, act: (item: T) => Promise<unknown>): Promise<void> {
  const failures: unknown[] = [];
  for (const item of items) await act(item).catch((error) => failures.push(error));
  if (failures.length > 0) throw failures[0];
}

/**
 * One pass of the background work, less often. A process that was suspended while it moved a project can close the source, or
 * begin to replicate it, after the move was undone, and die before it notices. What replication has left in a project that was
 * deleted meanwhile is removed when it is undeleted.
 */
export async function reopenStrays({ control, server }: { control: Control; server: Server }): Promise<void> {
  const closed = await server.maintenance.query<{ id: string }>(sql`
    select substring(datname from '^p_([a-z0-9]+)_moving$') as id from pg_database
    where datname ~ '^p_[a-z0-9]+_moving$'
      and shobj_description(oid, 'pg_database') = ${commentOf(server)}`);
  const strays = new Set([...closed.map(({ id }) => id), ...(await listReplicated(server))]);
  await forEach(strays, (id) =>
    withMoveLock(control, id, async () => {
      const found = await locateProject(control, id);
      if (found?.serverId === server.id && !found.isMoving) await reopen(control, server, id);
    }),
  );
}
