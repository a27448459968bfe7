// The feed that makes a revoked key or a changed project hold on every process within a second.
// A poll, not LISTEN: what a broken connection missed is simply in the next answer, and while polls fail nothing that
// was kept in memory is trusted.

import { type Sql, sql } from '../postgres/sql.ts';
import type { Control } from './control.ts';

export type Change = { projectId: string | null; keyId: string | null };

type Listener = (change: Change) => void;

export type Feed = {
  listen(listener: Listener): void;
  /** May what is kept in memory be used now? False once the last successful poll is too old. */
  isFresh(): boolean;
  stop(): Promise<void>;
};

const pollMs = 250;
/** After so long without news, what is kept in memory is not used. */
export const trustedMs = 900;

/** For a `with` clause beside the change itself, so that both commit together. */
export function recordChange({ projectId, keyId }: Partial<Change>): Sql {
  return sql`insert into changes (project_id, key_id) values (${projectId ?? null}, ${keyId ?? null})`;
}

export function followChanges(control: Control): Feed {
  const listeners: Listener[] = [];
  let seen: string | null = null;
  let freshSince = Number.NEGATIVE_INFINITY;
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  let polling: Promise<void> = Promise.resolve();

  const poll = async () => {
    const startedAt = performance.now();
    try {
      const { rows, snapshot } = await readChanges(control, seen);
      for (const row of rows) for (const listener of listeners) listener(row);
      seen = snapshot;
      freshSince = startedAt;
    } catch {
      // The request that needs PostgreSQL meets the same failure and reports it.
    }
    if (!stopped) timer = setTimeout(start, pollMs);
  };
  const start = () => {
    polling = poll();
  };
  start();

  return {
    listen: (listener) => void listeners.push(listener),
    isFresh: () => performance.now() - freshSince < trustedMs,
    stop: async () => {
      stopped = true;
      clearTimeout(timer);
      await polling;
    },
  };
}

/** Everything that was not visible at the last look: by snapshots, because numbers become visible out of order. */
async function readChanges(control: Control, seen: string | null) {
  const rows = await control.query<Change & { snapshot: string }>(sql`
    select distinct pg_current_snapshot()::text as snapshot,
           changes.project_id as "projectId", changes.key_id as "keyId"
    from (select ${seen}::text::pg_snapshot as seen) as last
    left join changes on changes.xid >= pg_snapshot_xmin(last.seen)
      and not pg_visible_in_snapshot(changes.xid, last.seen)`);
  return { rows: rows.filter((row) => row.projectId ?? row.keyId), snapshot: rows[0]?.snapshot ?? null };
}

/** Old entries have been seen by everybody who trusts their memory. */
export async function forgetOldChanges(control: Control): Promise<void> {
  await control.query(sql`delete from changes where at < now() - interval '1 hour'`);
}
