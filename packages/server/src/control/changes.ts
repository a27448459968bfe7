// The change feed: makes a revoked key or a changed project take effect on every process within a second. It polls
// instead of using LISTEN: the next poll returns what a broken connection missed, and while polls fail no cache is
// trusted.
import { type Sql, sql } from '../postgres/sql.ts';
import type { Control } from './control.ts';

export type Change = { projectId: string | null; keyId: string | null };

type Listener = (change: Change) => void;

export type Feed = {
  listen(listener: Listener): void;
  /** Whether caches may be used now. False once the last successful poll is too old. */
  isFresh(): boolean;
  stop(): Promise<void>;
};

const pollMs = 250;
/** Caches are not used if the last successful poll is older than this. */
export const trustedMs = 900;

/** For a `with` clause of the statement that makes the change, so that both commit together. */
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
      // Requests that need PostgreSQL get the same failure and report it.
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

/** Changes that the last poll did not see. Compares snapshots, because sequence numbers become visible out of order. */
async function readChanges(control: Control, seen: string | null) {
  const rows = await control.query<Change & { snapshot: string }>(sql`
    select distinct pg_current_snapshot()::text as snapshot,
           changes.project_id as "projectId", changes.key_id as "keyId"
    from (select ${seen}::text::pg_snapshot as seen) as last
    left join changes on changes.xid >= pg_snapshot_xmin(last.seen)
      and not pg_visible_in_snapshot(changes.xid, last.seen)`);
  return { rows: rows.filter((row) => row.projectId ?? row.keyId), snapshot: rows[0]?.snapshot ?? null };
}

/** Every process that still trusts its cache has seen entries of this age. */
export async function forgetOldChanges(control: Control): Promise<void> {
  await control.query(sql`delete from changes where at < now() - interval '1 hour'`);
}
