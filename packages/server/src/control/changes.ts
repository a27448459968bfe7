// The feed that makes a revoked key or a changed project hold on every process within a second.
// A poll, not LISTEN: what a broken connection missed is simply in the next answer, and while polls fail nothing that
// was kept in memory is trusted.

import { type Sql, sql } from '../postgres/sql.ts';
import type { Control } from './control.ts';

export type Change = { projectId: string | null; keyId: string | null };

export type Feed = {
  /** May what is kept in memory be used now? False once the last successful poll is too old. */
  isFresh(): boolean;
  stop(): Promise<void>;
};

const pollMs = 250;
const trustedMs = 900;

/** For a `with` clause beside the change itself, so that both commit together. */
export function recordChange({ projectId, keyId }: Partial<Change>): Sql {
  return sql`insert into changes (project_id, key_id) values (${projectId ?? null}, ${keyId ?? null})`;
}

export function followChanges(control: Control, onChange: (change: Change) => void): Feed {
  let seenUpTo: string | null = null;
  let freshSince = Number.NEGATIVE_INFINITY;
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  let polling: Promise<void> = Promise.resolve();

  const poll = async () => {
    const startedAt = performance.now();
    try {
      const { rows, upTo } = await readChanges(control, seenUpTo);
      for (const row of rows) onChange(row);
      seenUpTo = upTo;
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
    isFresh: () => performance.now() - freshSince < trustedMs,
    stop: async () => {
      stopped = true;
      clearTimeout(timer);
      await polling;
    },
  };
}

/** Everything by transactions that were not finished at the last look: some of it twice, none of it never. */
async function readChanges(control: Control, seenUpTo: string | null) {
  const rows = await control.query<Change & { upTo: string }>(sql`
    select pg_snapshot_xmin(pg_current_snapshot())::text as "upTo",
           changes.project_id as "projectId", changes.key_id as "keyId"
    from (select 1) as one
    left join changes on changes.xid >= ${seenUpTo}::text::xid8`);
  return { rows: rows.filter((row) => row.projectId ?? row.keyId), upTo: rows[0]?.upTo ?? null };
}

/** Old entries have been seen by everybody who trusts their memory. */
export async function forgetOldChanges(control: Control): Promise<void> {
  await control.query(sql`delete from changes where at < now() - interval '1 hour'`);
}
