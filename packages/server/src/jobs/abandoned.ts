// Clears up after jobs: drops the project that a job filled and did not finish. The job itself does this when it fails;
// the background work does it for a job whose process died.
import type { Control } from '../control/control.ts';
import { sql } from '../postgres/sql.ts';
import { discard, noteDrops } from '../servers/databases/drops.ts';
import type { Server, Servers } from '../servers/server.ts';
import { endDeadJobs, endOrphaned, forgetOldJobs, type JobError, listRunning } from './rows.ts';

type Deps = { control: Control; servers: Servers };

/**
 * The project is gone at once, with its slug and its keys. Its database follows, here if that is quick: one that cannot be dropped
 * now is left to the background work, and the job is not kept waiting.
 */
export async function dropFilledProjects({ control, servers }: Deps, jobId: string): Promise<void> {
  const noted = await control.change<{ id: string; serverId: number }>(sql`
    with gone as (delete from projects where filled_by = ${jobId} returning id, server_id, template),
    change as (insert into changes (project_id) select id from gone),
    noted as (${noteDrops(sql`select * from gone`)})
    select id, server_id as "serverId" from noted`);
  for (const { id, serverId } of noted) await discard({ control, server: servers.of(serverId) }, id);
}

/** One pass of the background work, for the projects of a server. */
export async function settleAbandonedJobs(control: Control, server: Server): Promise<void> {
  await endDeadJobs(control, gone);
  // After the jobs have ended: from then on none of them can be completed. A project whose job was never registered, or
  // could not be cleared up by the job itself, is found here too.
  await control.change(sql`
    with gone as (
      delete from projects
      where server_id = ${server.id} and filled_by is not null
        and case when exists (select from jobs where jobs.id = filled_by)
                 then not exists (select from jobs where jobs.id = filled_by and jobs.status = 'running')
                 else created_at < now() - interval '1 minute' end
      returning id, server_id, template),
    change as (insert into changes (project_id) select id from gone)
    ${noteDrops(sql`select * from gone`)}`);
  await forgetOldJobs(control);
}

const gone: JobError = {
  code: 'unavailable',
  message: 'The process that ran the job is gone.',
  hint: 'Start it again.',
};

/** Long enough for a process that has lost its connection to be back. */
const orphanedMs = 3_000;

/**
 * Ends the jobs of processes that have died, within seconds: each call looks for them, and ends those that were orphaned at an
 * earlier look, too. Returns whether any job runs. The heartbeat (`endDeadJobs`) finds the same later, and also a process that
 * hangs.
 */
export function openOrphans(control: Control): () => Promise<boolean> {
  let since = new Map<string, number>();
  return async () => {
    const running = await listRunning(control);
    const now = performance.now();
    since = new Map(running.filter((job) => job.isOrphaned).map(({ id }) => [id, since.get(id) ?? now]));
    const ids = [...since].filter(([, at]) => now - at >= orphanedMs).map(([id]) => id);
    if (ids.length > 0) await endOrphaned(control, ids, gone);
    return running.length > ids.length;
  };
}
