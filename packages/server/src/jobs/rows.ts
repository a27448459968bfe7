// The rows of jobs in the control database.
import type { Job, JobKind, JobStatus } from '@rowhouse/api';
import type { Control } from '../control/control.ts';
import { isId } from '../control/new-id.ts';
import { isPresent, runner } from '../control/presence.ts';
import { errors } from '../errors/errors.ts';
import { type Caller, type OperatorCaller, requireScope } from '../keys/caller.ts';
import { type Sql, sql } from '../postgres/sql.ts';

export type JobError = NonNullable<Job['error']>;

type Row = Omit<Job, 'started_at' | 'ended_at'> & { started_at: Date; ended_at: Date | null };

/** The heartbeat comes every second. A machine that is busy or suspended for less than this loses no job. */
const aliveFor = sql`interval '60 seconds'`;
/** Several heartbeats. */
const silentFor = sql`interval '4 seconds'`;
const maxListed = 100;
const keptFor = sql`interval '30 days'`;
const columns = sql`
  jobs.id, jobs.kind, jobs.status, jobs.progress, jobs.started_at, jobs.ended_at, jobs.details, jobs.error, jobs.result,
  (select slug from projects where projects.id = jobs.project_id) as project`;

export async function insertJob(
  control: Control,
  job: { id: string; kind: JobKind; accountId: string | null; projectId: string | null },
): Promise<Job> {
  const [row] = await control.change<Row>(sql`
    insert into jobs (id, kind, account_id, project_id, runner, alive_until)
    values (${job.id}, ${job.kind}, ${job.accountId}, ${job.projectId}, ${runner}, now() + ${aliveFor})
    returning ${columns}`);
  if (!row) throw new Error('The job was not registered.');
  return toJob(row);
}

export async function getJob(control: Control, caller: Caller | OperatorCaller, id: string): Promise<Job> {
  if (caller.kind !== 'operator') requireScope(caller, 'manage');
  if (!isId(id)) throw errors.jobNotFound(id);
  const [row] = await control.query<Row>(
    sql`select ${columns} from jobs where id = ${id} and ${visibleTo(caller)}`,
  );
  if (!row) throw errors.jobNotFound(id);
  return toJob(row);
}

/** Newest first. Older ones are forgotten after some days. */
export async function listJobs(control: Control, caller: Caller | OperatorCaller): Promise<Job[]> {
  if (caller.kind !== 'operator') requireScope(caller, 'manage');
  const rows = await control.query<Row>(sql`
    select ${columns} from jobs where ${visibleTo(caller)} order by started_at desc, id limit ${maxListed}`);
  return rows.map(toJob);
}

/** They say nothing about the data of a project. */
const operatorKinds: readonly JobKind[] = ['move', 'drain', 'backup', 'verify', 'prune', 'drill'];
const ofOperators = sql`kind = any (${operatorKinds}::text[])`;

/** Account keys see all jobs of the account; keys of a project with the scope `manage` see those of the project. */
function visibleTo(caller: Caller | OperatorCaller): Sql {
  if (caller.kind === 'operator') return ofOperators;
  if (caller.kind !== 'account')
    return sql`account_id = ${caller.accountId} and project_id is not distinct from ${caller.projectId}`;
  const own = caller.isOperator
    ? sql`(account_id = ${caller.accountId} or ${ofOperators})`
    : sql`account_id = ${caller.accountId}`;
  return caller.projects === null ? own : sql`${own} and project_id = any (${caller.projects}::text[])`;
}

/** Asks for the end of a job. The process that runs it reads this with its next heartbeat. */
export async function cancelJob(control: Control, caller: Caller | OperatorCaller, id: string): Promise<Job> {
  const { kind } = await getJob(control, caller, id);
  const isOperator = caller.kind === 'operator' || (caller.kind === 'account' && caller.isOperator);
  if (operatorKinds.includes(kind) && !isOperator)
    throw errors.forbidden('Only the operator can stop this job.', 'Ask the operator of this installation.');
  await control.change(sql`
    update jobs set is_cancel_requested = true where id = ${id} and status = 'running'`);
  return getJob(control, caller, id);
}

/** `gone`: the background work has taken the job for dead. */
export async function beat(
  control: Control,
  id: string,
  progress: number,
  details: Record<string, unknown> | null,
): Promise<'running' | 'cancelled' | 'gone'> {
  const [row] = await control.query<{ cancelled: boolean }>(sql`
    update jobs set alive_until = now() + ${aliveFor}, progress = greatest(progress, ${progress}::real),
                    details = coalesce(${details && JSON.stringify(details)}::text::jsonb, details)
    where id = ${id} and status = 'running'
    returning is_cancel_requested as cancelled`);
  if (!row) return 'gone';
  return row.cancelled ? 'cancelled' : 'running';
}

/** Marks the job as done and opens the project that it filled, in one statement. Returns false if the job has ended. */
export async function completeJob(
  control: Control,
  id: string,
  result: Record<string, unknown>,
): Promise<boolean> {
  const rows = await control.change(sql`
    with done as (
      update jobs set status = ${endOf(result)}, progress = 1, ended_at = now(), result = ${JSON.stringify(result)}::text::jsonb
      where id = ${id} and status = 'running'
      returning id
    ),
    opened as (
      update projects set filled_by = null from done where filled_by = done.id returning projects.id
    ),
    change as (insert into changes (project_id) select id from opened)
    select id from done`);
  return rows.length > 0;
}

/** The status of a job that ended without an error: an import can end with losses. */
function endOf({ lost_count: lost }: Record<string, unknown>): JobStatus {
  return typeof lost === 'number' && lost > 0 ? 'done_with_losses' : 'done';
}

export async function endJob(
  control: Control,
  id: string,
  status: 'failed' | 'cancelled',
  error: JobError,
): Promise<void> {
  await control.change(sql`
    update jobs set status = ${status}, ended_at = now(), error = ${JSON.stringify(error)}::text::jsonb
    where id = ${id} and status = 'running'`);
}

/** Ends the jobs whose process no longer shows signs of life. */
export async function endDeadJobs(control: Control, error: JobError): Promise<void> {
  await control.change(sql`
    update jobs set status = 'failed', ended_at = now(), error = ${JSON.stringify(error)}::text::jsonb
    where status = 'running' and alive_until < now()`);
}

/**
 * The running jobs, and whether each is orphaned: its process holds no lock any more, and has shown no sign of life for some seconds.
 * A process that has lost its connection looks the same for a moment.
 */
export async function listRunning(control: Control): Promise<{ id: string; isOrphaned: boolean }[]> {
  return control.query(sql`
    select id, runner is not null and alive_until < now() + ${aliveFor} - ${silentFor}
               and not ${isPresent(sql`jobs.runner`)} as "isOrphaned"
    from jobs where status = 'running'`);
}

export async function endOrphaned(control: Control, ids: readonly string[], error: JobError): Promise<void> {
  await control.change(sql`
    update jobs set status = 'failed', ended_at = now(), error = ${JSON.stringify(error)}::text::jsonb
    where status = 'running' and id = any (${[...ids]}::text[])
      and alive_until < now() + ${aliveFor} - ${silentFor} and not ${isPresent(sql`jobs.runner`)}`);
}

export async function forgetOldJobs(control: Control): Promise<void> {
  await control.query(sql`delete from jobs where ended_at < now() - ${keptFor}`);
}

function toJob(row: Row): Job {
  return {
    id: row.id,
    kind: row.kind,
    project: row.project,
    status: row.status,
    progress: Math.round(row.progress * 1000) / 1000,
    started_at: row.started_at.toISOString(),
    ended_at: row.ended_at?.toISOString() ?? null,
    details: row.details,
    error: row.error,
    result: row.result,
  };
}
