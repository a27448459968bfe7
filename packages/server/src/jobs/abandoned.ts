// Clears up after jobs: drops the project that a job filled and did not finish. The job itself does this when it fails;
// the background work does it for a job whose process died.
import { recordChange } from '../control/changes.ts';
import type { Control } from '../control/control.ts';
import { dropProvisioned } from '../engine/provision.ts';
import type { Server, Servers } from '../engine/servers.ts';
import { sql } from '../postgres/sql.ts';
import { endDeadJobs, forgetOldJobs } from './rows.ts';

type Deps = { control: Control; servers: Servers };

/** Can be repeated, and interrupted at any point: the row goes last. */
export async function dropFilledProjects({ control, servers }: Deps, jobId: string): Promise<void> {
  const rows = await control.query<{ id: string; serverId: number }>(
    sql`select id, server_id as "serverId" from projects where filled_by = ${jobId}`,
  );
  for (const { id, serverId } of rows) {
    await dropProvisioned(servers.of(serverId), id);
    await control.change(sql`
      with change as (${recordChange({ projectId: id })})
      delete from projects where id = ${id} and filled_by = ${jobId}`);
  }
}

/** One pass of the background work, for the projects of a server. */
export async function settleAbandonedJobs(deps: Deps, server: Server): Promise<void> {
  const { control } = deps;
  await endDeadJobs(control, {
    code: 'unavailable',
    message: 'The process that ran the job is gone.',
    hint: 'Start it again.',
  });
  // After the jobs have ended: from then on none of them can be completed. A project whose job was never registered, or
  // could not be cleared up by the job itself, is found here too.
  const left = await control.query<{ job: string }>(sql`
    select distinct filled_by as job from projects
    where server_id = ${server.id} and filled_by is not null and created_at < now() - interval '1 minute'
      and not exists (select 1 from jobs where jobs.id = filled_by and jobs.status = 'running')`);
  for (const { job } of left) await dropFilledProjects(deps, job);
  await forgetOldJobs(control);
}
