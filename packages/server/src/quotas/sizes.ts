// The sizes of all projects, at most a few seconds old. Only databases with activity are measured: idle projects cost
// nothing, in any number. Databases known to be quick are measured together; a slow one is measured separately, so that the
// others do not wait for it.
import type { Control } from '../control/control.ts';
import { within } from '../lib/pause.ts';
import { sql } from '../postgres/sql.ts';
import { databaseOf } from '../servers/databases/names.ts';
import type { Server } from '../servers/server.ts';
import { isFullRow } from './reserve.ts';

type Deps = { control: Control; server: Server };

/** A database with activity, and PostgreSQL's counters of that activity. */
type Due = { name: string; counters: string; writes: string; busy: boolean };

type Measuring = {
  /** The counters when a database was last measured, and when that was. */
  seen: Map<string, { counters: string; writes: string; at: number }>;
  quick: Set<string>;
  inFlight: Set<string>;
  running: Record<Group, Set<Promise<void>>>;
  /** By PostgreSQL's clock. */
  lookedAt: string | null;
};

type Group = keyof typeof groups;

/** How many statements run at once, and how many databases each measures. */
const groups = { quick: { atOnce: 2, together: 16 }, other: { atOnce: 2, together: 1 } };
/** An ordinary database takes 1 ms, one with 5,000 tables 60 ms, one with 20,000 tables 250 ms. */
const quickMs = 60;
/** Databases that are not measured by then come first at the next call, unless their measurement is in progress. */
const budgetMs = 1_500;

/**
 * The maximum number of databases per call in which, according to PostgreSQL's counters, something was read but nothing
 * written: with thousands of active projects, measuring all of them repeatedly would cost more than their statements.
 */
const readAtOnce = 32;

export type StorageTotals = { bytes: number; full: number; ratio: number };

/** The storage of all projects together. `ratio`: the largest used share of a limit. */
export async function readStorageTotals(control: Control): Promise<StorageTotals> {
  const [totals] = await control.query<StorageTotals>(sql`
    select coalesce(sum(bytes), 0)::float8 as bytes, count(*) filter (where is_full)::int as full,
           coalesce(max(bytes / most::float8), 0) as ratio
    from (
      select greatest(0, size_bytes - empty_bytes) as bytes, limit_mb * bigint '1048576' as most,
             ${isFullRow} as is_full
      from projects where deleted_at is null
    ) as live`);
  if (!totals) throw new Error('PostgreSQL does not say how much is stored.');
  return totals;
}

/** Returns how many databases were measured. Measurements beyond the budget continue: see `sizesSettled`. */
export async function refreshSizes(deps: Deps): Promise<number> {
  const state = stateOf(deps.server);
  const due = await findDue(deps, state);
  const deadline = performance.now() + budgetMs;
  let measured = 0;

  const work = async (queue: Due[], together: number) => {
    while (queue.length > 0 && performance.now() < deadline) {
      const part = queue.splice(0, together);
      await measurePart(deps, state, part);
      measured += part.length;
    }
  };
  const started: Promise<void>[] = [];
  for (const group of ['quick', 'other'] as const) {
    const { atOnce, together } = groups[group];
    const running = state.running[group];
    const queue = due.filter(({ name }) => state.quick.has(name) === (group === 'quick'));
    while (running.size < atOnce && queue.length > 0) {
      const working: Promise<void> = work(queue, together).finally(() => running.delete(working));
      running.add(working);
      started.push(working);
    }
  }
  await within(budgetMs, Promise.all(started), null);
  return measured;
}

/** Resolves when no measurement is in progress. Called before the connections are closed. */
export async function sizesSettled(server: Server): Promise<void> {
  const { quick, other } = stateOf(server).running;
  await Promise.allSettled([...quick, ...other]);
}

const states = new WeakMap<Server, Measuring>();

function stateOf(server: Server): Measuring {
  const known = states.get(server);
  if (known) return known;
  const state: Measuring = {
    seen: new Map(),
    quick: new Set(),
    inFlight: new Set(),
    running: { quick: new Set(), other: new Set() },
    lookedAt: null,
  };
  states.set(server, state);
  return state;
}

/** The longest waiting come first. Those that were never measured come last: after a start these are all projects. */
async function findDue({ control, server }: Deps, state: Measuring): Promise<Due[]> {
  const { seen, inFlight } = state;
  // Counters alone would be late: a session reports its own at the end of a transaction or up to 10 s later. A role that may
  // not see other sessions' state counts every session as busy.
  const activity = await server.maintenance.query<Due & { now: string }>(sql`
    select datname as name, concat_ws(' ', xact_commit, xact_rollback, blks_hit, stats_reset) as counters,
           concat_ws(' ', tup_inserted, tup_updated, tup_deleted, xact_rollback, stats_reset) as writes,
           coalesce(busy, false) as busy, now()::text as now
    from pg_stat_database left join (
      select datid, bool_or(state is distinct from 'idle'
        or state_change > ${state.lookedAt}::timestamptz - interval '100 ms') as busy
      from pg_stat_activity where datname like 'p\\_%' group by datid
    ) as sessions using (datid)
    where datname like 'p\\_%'`);
  state.lookedAt = activity[0]?.now ?? null;
  forgetOthers(state, new Set(activity.map(({ name }) => name)));
  const changed = activity.filter(({ name, counters, busy }) => {
    return !inFlight.has(name) && (busy || seen.get(name)?.counters !== counters);
  });
  if (changed.length === 0) return [];
  const projects = await control.query<{ id: string }>(sql`
    select id from projects
    where id = any (${changed.map(({ name }) => name.slice(2))}::text[])
      and server_id = ${server.id} and deleted_at is null`);
  const ours = new Set(projects.map(({ id }) => databaseOf(id)));
  const due = changed.filter(({ name, counters, writes }) => {
    if (!ours.has(name)) seen.set(name, { counters, writes, at: 0 });
    return ours.has(name);
  });
  const since = ({ name, busy }: Due) => seen.get(name)?.at ?? (busy ? 1e12 : 2e12);
  due.sort((one, other) => since(one) - since(other));
  // A session reports its writes late, and VACUUM reports none: databases that seem to be only read get their turn, too.
  let reads = 0;
  return due.filter(({ name, writes }) => seen.get(name)?.writes !== writes || reads++ < readAtOnce);
}

function forgetOthers({ seen, quick }: Measuring, names: Set<string>): void {
  for (const name of seen.keys()) if (!names.has(name)) seen.delete(name);
  for (const name of quick) if (!names.has(name)) quick.delete(name);
}

async function measurePart(deps: Deps, { seen, quick, inFlight }: Measuring, part: Due[]): Promise<void> {
  const names = part.map(({ name }) => name);
  const startedAt = performance.now();
  for (const name of names) inFlight.add(name);
  try {
    await measure(deps, names);
  } finally {
    for (const name of names) inFlight.delete(name);
  }
  const endedAt = performance.now();
  for (const { name, counters, writes } of part) seen.set(name, { counters, writes, at: endedAt });
  // Which of several was slow shows when each is measured separately.
  for (const name of names) {
    if (endedAt - startedAt <= quickMs) quick.add(name);
    else quick.delete(name);
  }
}

/** Measures these databases now. */
export async function measure({ control, server }: Deps, names: string[]): Promise<void> {
  // By oid: a database that was dropped in the meantime returns null instead of an error.
  const sizes = await server.maintenance.query<{ name: string; bytes: number | null }>(sql`
    select datname as name, pg_database_size(oid)::float8 as bytes
    from pg_database where datname = any (${names}::text[])`);
  await control.query(sql`
    update projects set size_bytes = measured.bytes::bigint
    from unnest(${sizes.map(({ name }) => name)}::text[], ${sizes.map(({ bytes }) => bytes)}::float8[])
      as measured (name, bytes)
    where projects.id = substr(measured.name, 3) and measured.bytes is not null
      and projects.size_bytes <> measured.bytes::bigint`);
}
