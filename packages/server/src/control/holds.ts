// Holds: an operation asks every process to let the requests of a project wait for a moment. The rows reach the processes
// with their feed of changes, so no process has to know of the others.
import { randomUUID } from 'node:crypto';
import { sql } from '../postgres/sql.ts';
import type { Control } from './control.ts';

export type Hold = { projectId: string; isClosed: boolean };

export type HeldProjects = {
  /** Processes look more often from now on. */
  announce(): Promise<void>;
  /** Requests wait from now on, in every process that has heard of it. */
  close(): Promise<void>;
  /** Requests continue. The hold stays announced. */
  reopen(): Promise<void>;
  end(): Promise<void>;
};

/** A hold that was not renewed for this long ends by itself. */
export const holdMs = 3_000;
const renewMs = 1_000;
const expiry = sql`now() + make_interval(secs => ${holdMs / 1000})`;

/** For the poll of the feed. */
export const currentHolds = sql`
  (select coalesce(jsonb_agg(jsonb_build_object('projectId', project_id, 'isClosed', is_closed)), '[]')
   from holds where expires_at > now())`;

/** Whether nothing may begin on the database of a row of `projects` for a moment. */
export const isHeld = sql`
  (exists (select from holds where project_id = projects.id and is_closed and expires_at > now())
   -- A process died while it moved the project.
   or exists (select from moves where project_id = projects.id and state in ('undoing', 'switched')))`;

export function holdProjects(control: Control, projectIds: readonly string[]): HeldProjects {
  const holder = randomUUID();
  let renewing: NodeJS.Timeout | undefined;
  const set = async (isClosed: boolean) => {
    await control.query(sql`
      update holds set is_closed = ${isClosed}, expires_at = ${expiry} where holder = ${holder}`);
  };
  const renew = () => {
    control
      .query(sql`update holds set expires_at = ${expiry} where holder = ${holder}`)
      // Without a renewal, requests continue in all other processes; PostgreSQL itself keeps the operation safe.
      .catch(() => {});
  };
  return {
    announce: async () => {
      // A row that is there already was left by a process that died: a lock lets one operation run at a time.
      await control.query(sql`
        insert into holds (project_id, holder, is_closed, expires_at)
        select id, ${holder}, false, ${expiry} from unnest(${[...projectIds]}::text[]) as id
        on conflict (project_id) do update
        set holder = excluded.holder, is_closed = false, expires_at = excluded.expires_at`);
      renewing = setInterval(renew, renewMs);
    },
    close: () => set(true),
    reopen: () => set(false),
    end: async () => {
      clearInterval(renewing);
      await control.query(sql`delete from holds where holder = ${holder}`);
    },
  };
}
