// Skips periodic work while nothing is committed. With thousands of projects, looking at all of them every two seconds would
// cost an idle server more than everything else.
import type { Queryable } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import type { Server } from '../servers/server.ts';

type Options = {
  /** The work still runs for this long after a commit, because it reads what PostgreSQL reports late. */
  lagMs?: number;
  /** It also runs this often, for what changes without a commit, such as the time. */
  maxMs: number;
};

/** Runs the work if it has to. The work returns whether it was completed: if not, it runs at the next call. */
export type WhenChanged = (work: () => Promise<boolean>) => Promise<void>;

export function openWhenChanged(server: Server, { lagMs = 0, maxMs }: Options): WhenChanged {
  const readQuietMs = openQuietTime(server);
  let completedAt = Number.NEGATIVE_INFINITY;
  return async (work) => {
    // Before the work: what is committed meanwhile makes it run again.
    const quietMs = await readQuietMs();
    const now = performance.now();
    if (completedAt >= now - quietMs + lagMs && now - completedAt < maxMs) return;
    if (await work()) completedAt = now;
  };
}

/** For how long nothing was committed, since the first call. */
export function openQuietTime(server: Server): () => Promise<number> {
  let state: string | null = null;
  let changedAt = 0;
  return async () => {
    const found = await readState(server);
    const now = performance.now();
    if (found !== state) changedAt = now;
    state = found;
    return now - changedAt;
  };
}

/** A text that stays the same while nothing is committed, neither on the server nor in the control database. */
async function readState(server: Server): Promise<string> {
  const own = await readSnapshot(server.maintenance);
  return server.holdsControl ? own : `${own} ${await readSnapshot(server.control)}`;
}

/** After a crash, transaction ids can be given out again. */
async function readSnapshot(database: Queryable): Promise<string> {
  const [row] = await database.query<{ state: string }>(
    sql`select concat_ws(' ', pg_current_snapshot(), pg_postmaster_start_time()) as state`,
  );
  if (!row) throw new Error('PostgreSQL does not report its snapshot.');
  return row.state;
}
