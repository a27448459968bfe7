// The change feed: makes a revoked key or a changed project take effect on every process within a second. It polls
// instead of using LISTEN: while polls fail, no cache is trusted.
//
// Polls compare snapshots, and those of one connection only: after a crash or a failover, transaction ids that were given
// out before are given out again, so to an older snapshot a new revocation can look like one that it has seen. Each new
// connection, and each new timeline, makes the process forget what it remembered.
import { pause, within } from '../lib/pause.ts';
import type { Session } from '../postgres/admin/database.ts';
import { type Sql, sql } from '../postgres/sql.ts';
import type { Control } from './control.ts';
import { currentHolds, type Hold, holdMs } from './holds.ts';
import { isAlone, takePresence } from './presence.ts';

/** `serverId`: a server was added, changed or removed. `accountId`: an account was suspended, resumed, limited or deleted. */
export type Change = {
  projectId: string | null;
  keyId: string | null;
  serverId: number | null;
  accountId: string | null;
};

type Listener = (change: Change) => void;
type ResetListener = () => void;
type HoldsListener = (projectIds: ReadonlySet<string>) => void;

export type Feed = {
  listen(listener: Listener): void;
  /** Called when changes may have been missed: whatever was read from the control database before counts no more. */
  listenToReset(listener: ResetListener): void;
  /** Called after each poll, and after the changes of that poll, with the projects whose requests have to wait (holds.ts). */
  listenToHolds(listener: HoldsListener): void;
  /** Whether caches may be used now. False once the last successful poll is too old. */
  isFresh(): boolean;
  /** Whether no other process serves the installation now. */
  isAlone(): boolean;
  /** null: every other process knows of this one. Otherwise a promise: ask again when it resolves. */
  becomingKnown(): Promise<void> | null;
  stop(): Promise<void>;
};

export const pollMs = 250;
/** While this is the only process, and has not used a cache for a while. */
const [quietPollMs, quietAfterMs] = [600, 10_000];
/** While a hold is announced: a project that several processes hold waits for the slowest of them. */
const pollHoldsMs = 10;
/** Caches are not used if the last successful poll is older than this. */
export const trustedMs = 900;
/** A connection on which a poll takes longer counts as broken: its host may be gone without a word. */
const answerMs = 2_000;

/** For a `with` clause of the statement that makes the change, so that both commit together. */
export function recordChange({ projectId, keyId, serverId, accountId }: Partial<Change>): Sql {
  return sql`
    insert into changes (project_id, key_id, server_id, account_id)
    values (${projectId ?? null}, ${keyId ?? null}, ${serverId ?? null}, ${accountId ?? null})`;
}

export function followChanges(control: Control): Feed {
  const listeners: Listener[] = [];
  const resetListeners: ResetListener[] = [];
  const holdsListeners: HoldsListener[] = [];
  let areHoldsAnnounced = false;
  let freshSince = Number.NEGATIVE_INFINITY;
  let usedAt = performance.now();
  /** The session that holds this process's lock. */
  let follower: Session | null = null;
  let alone = false;
  /** From when on the others know of this process; null: it holds no lock yet, or has lost the session that held it. */
  let knownFrom: number | null = null;
  const stopping = new AbortController();

  const follow = async (session: Session, lost: AbortSignal) => {
    lost.addEventListener('abort', () => follower === session && forgetPresence(), { once: true });
    follower = session;
    let seen: Position | null = null;
    // The plan is kept, and may have been made when the table of changes was empty.
    await session.query(sql`set enable_seqscan = off`);
    knownFrom = (await takePresence(session)) ? 0 : performance.now() + trustedMs;
    while (!stopping.signal.aborted) {
      const startedAt = performance.now();
      const { rows, position, holds, ...found } = await readChanges(session, seen);
      // The first poll of a connection, or a new timeline.
      if (seen?.timeline !== position.timeline) for (const listener of resetListeners) listener();
      for (const row of rows) for (const listener of listeners) listener(row);
      seen = position;
      freshSince = startedAt;
      alone = found.alone && !lost.aborted;
      reportHolds(holds);
      const isQuiet = alone && performance.now() - usedAt > quietAfterMs;
      await rest(areHoldsAnnounced ? pollHoldsMs : isQuiet ? quietPollMs : pollMs);
    }
  };
  const forgetPresence = () => {
    follower = null;
    alone = false;
    knownFrom = null;
  };
  const reportHolds = (holds: readonly Hold[]) => {
    const isChange = areHoldsAnnounced || holds.length > 0;
    areHoldsAnnounced = holds.length > 0;
    if (!isChange) return;
    const closed = new Set(holds.filter(({ isClosed }) => isClosed).map(({ projectId }) => projectId));
    for (const listener of holdsListeners) listener(closed);
  };
  const rest = (ms: number) => pause(ms, stopping.signal);
  const run = async () => {
    while (!stopping.signal.aborted) {
      // Requests that need PostgreSQL get the same failure and report it.
      await control.session(follow).catch(() => {});
      forgetPresence();
      if (areHoldsAnnounced && performance.now() - freshSince > holdMs) reportHolds([]);
      await rest(pollMs);
    }
  };
  const running = run();
  const isFresh = () => {
    usedAt = performance.now();
    return usedAt - freshSince < trustedMs;
  };

  return {
    listen: (listener) => void listeners.push(listener),
    listenToReset: (listener) => void resetListeners.push(listener),
    listenToHolds: (listener) => void holdsListeners.push(listener),
    isFresh,
    isAlone: () => alone && isFresh(),
    becomingKnown: () => {
      if (stopping.signal.aborted || (knownFrom !== null && performance.now() >= knownFrom)) return null;
      return rest(knownFrom === null ? pollMs : Math.ceil(knownFrom - performance.now()) + 1);
    },
    stop: async () => {
      stopping.abort();
      await running;
    },
  };
}

/** The state that a poll has seen. The timeline is the one on which the server writes: a promotion begins a new one. */
type Position = Readonly<{ snapshot: string; timeline: string }>;

/** Changes that the last poll did not see. Compares snapshots, because sequence numbers become visible out of order. */
async function readChanges(session: Session, seen: Position | null) {
  const statement = sql`
    select distinct pg_current_snapshot()::text as snapshot, ${currentHolds} as holds, presence.alone,
           substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) as timeline,
           changes.project_id as "projectId", changes.key_id as "keyId", changes.server_id as "serverId",
           changes.account_id as "accountId"
    from (select ${seen?.snapshot ?? null}::text::pg_snapshot as seen) as last
    cross join (select ${isAlone} as alone) as presence
    left join changes on changes.xid >= pg_snapshot_xmin(last.seen)
      and not pg_visible_in_snapshot(changes.xid, last.seen)`;
  const asked = session.query<Change & Position & { holds: Hold[]; alone: boolean }>(statement, 'changes');
  asked.catch(() => {});
  const rows = await within(answerMs, asked, null);
  const [first] = rows ?? [];
  if (!rows || !first) throw new Error(`no answer within ${answerMs} ms`);
  return {
    rows: rows.filter((row) => row.projectId ?? row.keyId ?? row.serverId ?? row.accountId),
    position: { snapshot: first.snapshot, timeline: first.timeline },
    holds: first.holds,
    alone: first.alone,
  };
}

/** Every process that still trusts its cache has seen entries of this age. */
export async function forgetOldChanges(control: Control): Promise<void> {
  await control.query(sql`delete from changes where at < now() - interval '1 hour'`);
}
