// Moves all projects of a server that is being drained to others, a few at a time. Each is a move with a job of its own, which
// its account can follow and cancel.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Job } from '@rowhouse/api';
import type { Control } from '../control/control.ts';
import { errors, RowhouseError } from '../errors/errors.ts';
import type { JobRun } from '../jobs/jobs.ts';
import { sql } from '../postgres/sql.ts';
import { type ProjectRow, projectColumns } from '../projects/project.ts';
import { type MoveDeps, startMoveOf } from './move.ts';

/** More at once would only wait for each other: one project of a server is paused at a time. */
const atOnce = 2;
const [lookMs, waitMs] = [250, 1_000];
/** For this long the control database may not answer, such as during a failover. */
const awayMs = 60_000;
/** How many of the projects that could not be moved the result lists. */
const maxListed = 100;

export async function startDrain(
  deps: MoveDeps,
  accountId: string | null,
  serverId: number,
  maxPauseMs?: number,
): Promise<Job> {
  if (!deps.servers.members().some(({ row }) => row.state === 'active' && row.id !== serverId))
    throw errors.conflict(
      'There is no other server that takes projects.',
      'Add one first: rowhouse servers add.',
    );
  return deps.jobs.start({ kind: 'drain', accountId }, (run) => drain(deps, serverId, maxPauseMs, run));
}

type Left = { project: string; reason: string };

async function drain(
  deps: MoveDeps,
  serverId: number,
  maxPauseMs: number | undefined,
  run: JobRun,
): Promise<Record<string, unknown>> {
  const tried = new Set<string>();
  const left: Left[] = [];
  let moved = 0;
  const worker = async (waiting: string[]) => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      run.signal.throwIfAborted();
      const project = await patiently(run.signal, () => findOn(deps.control, serverId, id));
      if (!project) continue;
      const reason = await moveOne(deps, project, maxPauseMs, run.signal);
      if (reason === null) moved++;
      else left.push({ project: project.slug, reason });
      run.progress((moved + left.length) / tried.size);
    }
  };
  for (;;) {
    // Again at the end: a process that had not heard of the drain may have placed another one here.
    const listed = await patiently(run.signal, () => listOn(deps.control, serverId));
    const found = listed.filter((id) => !tried.has(id));
    if (found.length === 0) break;
    for (const id of found) tried.add(id);
    // All end before the job does: none may start a move after it.
    const ends = await Promise.allSettled(Array.from({ length: atOnce }, () => worker(found)));
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
  }
  return { moved, left_count: left.length, left: left.slice(0, maxListed) };
}

const movable = sql`deleted_at is null and filled_by is null`;

/** Small ones first: they are done soon. Deleted projects stay until they can no longer be undeleted. */
async function listOn(control: Control, serverId: number): Promise<string[]> {
  const rows = await control.query<{ id: string }>(
    sql`select id from projects where server_id = ${serverId} and ${movable} order by size_bytes, id`,
  );
  return rows.map(({ id }) => id);
}

/** Others may have taken hours: it can be deleted, moved or changed by now. */
async function findOn(control: Control, serverId: number, id: string): Promise<ProjectRow | null> {
  const [row] = await control.query<ProjectRow>(sql`
    select ${projectColumns} from projects where id = ${id} and server_id = ${serverId} and ${movable}`);
  return row ?? null;
}

/** Returns why it stays, or null. */
async function moveOne(
  deps: MoveDeps,
  project: ProjectRow,
  maxPauseMs: number | undefined,
  signal: AbortSignal,
): Promise<string | null> {
  for (;;) {
    try {
      const server = placeFor(deps, project);
      const pause = maxPauseMs === undefined ? {} : { max_pause_ms: maxPauseMs };
      const { job } = await startMoveOf(deps, project, { server, ...pause });
      return await endOf(deps.control, job.id, signal);
    } catch (error) {
      if (!(error instanceof RowhouseError)) {
        if (signal.aborted) throw error;
        // One project must not keep the others from being moved.
        deps.onError(error);
        return 'An unexpected error occurred. The log of the service has it.';
      }
      if (error.code !== 'overloaded') return error.message;
      // Enough other projects are being moved.
      await sleep(waitMs, undefined, { signal });
    }
  }
}

/** On a server with the labels of the present one, if there is one with room. */
function placeFor({ servers }: MoveDeps, { limit_mb: limitMb, server_id: serverId }: ProjectRow): string {
  const labels = servers.members().find(({ row }) => row.id === serverId)?.row.labels ?? [];
  try {
    return servers.place({ limitMb, labels }).server.name;
  } catch (error) {
    if (labels.length === 0) throw error;
    return servers.place({ limitMb }).server.name;
  }
}

/** Waits for the end of a move. A drain that is cancelled cancels the moves that it has started. */
async function endOf(control: Control, jobId: string, signal: AbortSignal): Promise<string | null> {
  let isCancelled = false;
  // Not ended by the signal: the job of the drain ends after those of its moves.
  const never = new AbortController().signal;
  for (;;) {
    if (signal.aborted && !isCancelled) {
      await patiently(never, () =>
        control.change(
          sql`update jobs set is_cancel_requested = true where id = ${jobId} and status = 'running'`,
        ),
      );
      isCancelled = true;
    }
    const [job] = await patiently(never, () =>
      control.query<{ status: Job['status']; reason: string | null }>(
        sql`select status, error ->> 'message' as reason from jobs where id = ${jobId}`,
      ),
    );
    if (!job) return 'The job of the move is gone.';
    if (job.status !== 'running') return job.status === 'done' ? null : (job.reason ?? 'The move failed.');
    await sleep(lookMs);
  }
}

/** For statements that can be repeated: tries again while the control database does not answer. */
async function patiently<T>(signal: AbortSignal, ask: () => Promise<T>): Promise<T> {
  for (const until = performance.now() + awayMs; ; await sleep(waitMs, undefined, { signal })) {
    try {
      return await ask();
    } catch (error) {
      const isAway =
        error instanceof RowhouseError && (error.code === 'unavailable' || error.code === 'outcome_unknown');
      if (!isAway || performance.now() > until) throw error;
    }
  }
}
