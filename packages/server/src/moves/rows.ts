// The rows of moves in the control database, and the lock that tells whether a process works on one.
import { recordChange } from '../control/change-feed.ts';
import type { Control } from '../control/control.ts';
import { locks } from '../control/lock-names.ts';
import { ifFree } from '../control/mutex.ts';
import { errors } from '../errors/errors.ts';
import { isState, type Queryable } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';

export type MoveState = 'copying' | 'undoing' | 'reopened' | 'switched' | 'opened';
export type Move = Readonly<{
  projectId: string;
  jobId: string;
  fromServer: number;
  toServer: number;
  copyId: string;
}>;
export type MoveRow = Move & Readonly<{ state: MoveState }>;

/** In all processes. Each takes two connections to the control database, and reads and writes at full speed. */
const atOnce = 8;

/** Together with the row of the spare, so that neither is there alone. */
export async function insertMove(control: Control, move: Move, template: string): Promise<void> {
  const { projectId, jobId, fromServer, toServer, copyId } = move;
  try {
    await control.transaction(async (transaction) => {
      const running = await transaction.query(sql`select from moves where state = 'copying'`);
      if (running.length >= atOnce) throw errors.overloaded('Too many projects are already being moved.', 30);
      const [project] = await transaction.query(sql`
        select from projects where id = ${projectId} and server_id = ${fromServer} and deleted_at is null for share`);
      if (!project)
        throw errors.conflict('This project was moved or deleted a moment ago.', 'Look where it is now.');
      await transaction.query(sql`
        insert into moves (project_id, job_id, from_server, to_server, copy_id)
        values (${projectId}, ${jobId}, ${fromServer}, ${toServer}, ${copyId})`);
      await transaction.query(sql`
        insert into spares (id, server_id, state, template) values (${copyId}, ${toServer}, 'making', ${template})`);
    });
  } catch (error) {
    if (!isState(error, sqlstate.uniqueViolation)) throw error;
    throw errors.conflict(
      'This project is being moved, or the last move is being tidied up.',
      'Try again when its status is not "moving".',
    );
  }
}

/** Those that the background work of a server has to look at. One that has just begun may not have its lock yet. */
export function findMoves(control: Control, serverId: number): Promise<MoveRow[]> {
  return control.query<MoveRow>(sql`
    select ${columns} from moves
    where (from_server = ${serverId} or to_server = ${serverId})
      and (state <> 'copying' or created_at < now() - interval '3 seconds')`);
}

export async function findMove(control: Queryable, projectId: string): Promise<MoveRow | null> {
  const [row] = await control.query<MoveRow>(
    sql`select ${columns} from moves where project_id = ${projectId}`,
  );
  return row ?? null;
}

const columns = sql`
  project_id as "projectId", job_id as "jobId", from_server as "fromServer", to_server as "toServer",
  copy_id as "copyId", state`;

/** For requests that do not find the database of a project. null: there is no such project. */
export async function locateProject(
  control: Queryable,
  projectId: string,
): Promise<{ serverId: number; isMoving: boolean } | null> {
  const [row] = await control.query<{ serverId: number; isMoving: boolean }>(sql`
    select server_id as "serverId", exists (select from moves where project_id = projects.id) as "isMoving"
    from projects where id = ${projectId} and deleted_at is null`);
  return row ?? null;
}

/** Returns false if the move is in another state. */
export async function setState(
  control: Control,
  { projectId, jobId }: Move,
  from: MoveState,
  to: MoveState,
): Promise<boolean> {
  const rows = await control.change(sql`
    with change as (${recordChange({ projectId })})
    update moves set state = ${to}
    where project_id = ${projectId} and job_id = ${jobId} and state = ${from}
    returning project_id`);
  return rows.length > 0;
}

/** Returns null if the project stays where it is: it was deleted meanwhile, or the move was taken for dead. */
export async function switchServer(
  control: Control,
  { projectId, jobId, fromServer, toServer, copyId }: Move,
  facts: { template: string; emptyBytes: number; bytes: number },
): Promise<{ passwordVersion: number } | null> {
  return control.transaction(async (transaction) => {
    // Locked first: a deletion comes before the switch or after it.
    const [project] = await transaction.query<{ passwordVersion: number }>(sql`
      select password_version as "passwordVersion" from projects
      where id = ${projectId} and server_id = ${fromServer} and deleted_at is null for update`);
    if (!project) return null;
    const [mine] = await transaction.query(sql`
      update moves set state = 'switched'
      where project_id = ${projectId} and job_id = ${jobId} and state = 'copying'
      returning project_id`);
    if (!mine) return null;
    await transaction.query(sql`
      update projects
      set server_id = ${toServer}, template = ${facts.template}, empty_bytes = ${facts.emptyBytes}::float8::bigint,
          size_bytes = ${facts.bytes}::float8::bigint
      where id = ${projectId}`);
    await transaction.query(sql`delete from spares where id = ${copyId}`);
    await transaction.query(sql`
      insert into former_servers (project_id, system_identifier, until)
      select ${projectId}, system_identifier, now() from servers
      where id = ${fromServer} and system_identifier is not null`);
    await transaction.query(recordChange({ projectId }));
    return project;
  });
}

export async function deleteMove(control: Control, { projectId, jobId }: Move): Promise<void> {
  await control.change(sql`
    with change as (${recordChange({ projectId })})
    delete from moves where project_id = ${projectId} and job_id = ${jobId}`);
}

/** The job of a process that died after the switch: the project has moved. */
export async function noteDone(control: Control, { jobId, toServer }: Move): Promise<void> {
  await control.change(sql`
    update jobs set status = 'done', progress = 1, ended_at = now(), error = null,
                    result = jsonb_build_object('server', (select name from servers where id = ${toServer}))
    where id = ${jobId} and status in ('running', 'failed')`);
}

/** Runs `act` while no other process works on the move. The lock ends with the process. Returns null if it is taken. */
export function withMoveLock<T>(
  control: Control,
  projectId: string,
  act: (lost: AbortSignal) => Promise<T>,
): Promise<T | null> {
  return ifFree(control, locks.move(projectId), act);
}
