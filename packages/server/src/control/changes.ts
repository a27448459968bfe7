// The change feed: makes a revoked key or a changed project take effect on every process within a second. It polls
// instead of using LISTEN: the next poll returns what a broken connection missed, and while polls fail no cache is
// trusted.
import { type Sql, sql } from '../postgres/sql.ts';
import type { Control } from './control.ts';
import { currentHolds, type Hold, holdMs } from './holds.ts';

/** `serverId`: a server was added, changed or removed. */
export type Change = { projectId: string | null; keyId: string | null; serverId: number | null };

type Listener = (change: Change) => void;
type HoldsListener = (projectIds: ReadonlySet<string>) => void;

export type Feed = {
  listen(listener: Listener): void;
  /** Called after each poll, and after the changes of that poll, with the projects whose requests have to wait (holds.ts). */
  listenToHolds(listener: HoldsListener): void;
  /** Whether caches may be used now. False once the last successful poll is too old. */
  isFresh(): boolean;
  stop(): Promise<void>;
};

export const pollMs = 250;
/** While a hold is announced: a project that several processes hold waits for the slowest of them. */
const pollHoldsMs = 10;
/** Caches are not used if the last successful poll is older than this. */
export const trustedMs = 900;

/** For a `with` clause of the statement that makes the change, so that both commit together. */
export function recordChange({ projectId, keyId, serverId }: Partial<Change>): Sql {
  return sql`
    insert into changes (project_id, key_id, server_id)
    values (${projectId ?? null}, ${keyId ?? null}, ${serverId ?? null})`;
}

export function followChanges(control: Control): Feed {
  const listeners: Listener[] = [];
  const holdsListeners: HoldsListener[] = [];
  let areHoldsAnnounced = false;
  let seen: string | null = null;
  let freshSince = Number.NEGATIVE_INFINITY;
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  let polling: Promise<void> = Promise.resolve();

  const poll = async () => {
    const startedAt = performance.now();
    try {
      const { rows, snapshot, holds } = await readChanges(control, seen);
      for (const row of rows) for (const listener of listeners) listener(row);
      seen = snapshot;
      freshSince = startedAt;
      reportHolds(holds);
    } catch {
      // Requests that need PostgreSQL get the same failure and report it.
      if (areHoldsAnnounced && startedAt - freshSince > holdMs) reportHolds([]);
    }
    if (!stopped) timer = setTimeout(start, areHoldsAnnounced ? pollHoldsMs : pollMs);
  };
  const reportHolds = (holds: readonly Hold[]) => {
    const isChange = areHoldsAnnounced || holds.length > 0;
    areHoldsAnnounced = holds.length > 0;
    if (!isChange) return;
    const closed = new Set(holds.filter(({ isClosed }) => isClosed).map(({ projectId }) => projectId));
    for (const listener of holdsListeners) listener(closed);
  };
  const start = () => {
    polling = poll();
  };
  start();

  return {
    listen: (listener) => void listeners.push(listener),
    listenToHolds: (listener) => void holdsListeners.push(listener),
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
  const rows = await control.query<Change & { snapshot: string; holds: Hold[] }>(sql`
    select distinct pg_current_snapshot()::text as snapshot, ${currentHolds} as holds,
           changes.project_id as "projectId", changes.key_id as "keyId", changes.server_id as "serverId"
    from (select ${seen}::text::pg_snapshot as seen) as last
    left join changes on changes.xid >= pg_snapshot_xmin(last.seen)
      and not pg_visible_in_snapshot(changes.xid, last.seen)`);
  const [first] = rows;
  return {
    rows: rows.filter((row) => row.projectId ?? row.keyId ?? row.serverId),
    snapshot: first?.snapshot ?? null,
    holds: first?.holds ?? [],
  };
}

/** Every process that still trusts its cache has seen entries of this age. */
export async function forgetOldChanges(control: Control): Promise<void> {
  await control.query(sql`delete from changes where at < now() - interval '1 hour'`);
}
