// How large each project is, at most some seconds old. Only databases in which something happened are measured: an
// idle project costs nothing, however many there are. Those known to be quick are measured together; one that takes long
// is measured by itself beside them, so that nobody waits for it.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Control } from '../control/control.ts';
import { databaseOf } from '../engine/provision.ts';
import type { Server } from '../engine/servers.ts';
import { sql } from '../postgres/sql.ts';
import { isFullRow } from './reserve.ts';

type Deps = { control: Control; server: Server };

/** A database in which something happened, and PostgreSQL's own counters of that. */
type Due = { name: string; counters: string; writes: string; busy: boolean };

type Measuring = {
  /** The counters when a database was last measured, and when that was. */
  seen: Map<string, { counters: string; writes: string; at: number }>;
  quick: Set<string>;
  inFlight: Set<string>;
  running: Record<Pipeline, Set<Promise<void>>>;
  /** By PostgreSQL's clock. */
  lookedAt: string | null;
};

type Pipeline = keyof typeof pipelines;

/** How many statements at a time, and how many databases in one. */
const pipelines = { quick: { atOnce: 2, together: 16 }, other: { atOnce: 2, together: 1 } };
/** An ordinary database takes 1 ms, one with 5,000 tables 60, one with 20,000 tables 250. */
const quickMs = 60;
/** What is not done by then is the first at the next call, unless it is being measured already. */
const budgetMs = 1_500;

/**
 * At most so many at a time in which, as far as PostgreSQL tells, something was read and nothing written: with thousands
 * of projects at work, measuring all of them again and again would cost more than their statements do.
 */
const readAtOnce = 32;

const bytesInMb = 1024 * 1024;

export function toMb(bytes: number): number {
  return Math.round((bytes / bytesInMb) * 100) / 100;
}

/** Of all projects together; `ratio`: of the one that has used most of its limit. */
export async function readRoom(control: Control): Promise<{ bytes: number; full: number; ratio: number }> {
  const [room] = await control.query<{ bytes: number; full: number; ratio: number }>(sql`
    select coalesce(sum(bytes), 0)::float8 as bytes, count(*) filter (where is_full)::int as full,
           coalesce(max(bytes / most::float8), 0) as ratio
    from (
      select greatest(0, size_bytes - empty_bytes) as bytes, limit_mb * bigint '1048576' as most,
             ${isFullRow} as is_full
      from projects where deleted_at is null
    ) as live`);
  if (!room) throw new Error('PostgreSQL does not say how much is stored.');
  return room;
}

/** Returns how many databases were measured. What takes longer than the budget goes on: see `sizesSettled`. */
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
  for (const pipeline of ['quick', 'other'] as const) {
    const { atOnce, together } = pipelines[pipeline];
    const running = state.running[pipeline];
    const queue = due.filter(({ name }) => state.quick.has(name) === (pipeline === 'quick'));
    while (running.size < atOnce && queue.length > 0) {
      const working: Promise<void> = work(queue, together).finally(() => running.delete(working));
      running.add(working);
      started.push(working);
    }
  }
  await Promise.race([Promise.all(started), sleep(budgetMs, undefined, { ref: false })]);
  return measured;
}

/** Before the connections are closed: nothing is being measured any more. */
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

/** Who waits longest comes first. Those that were never measured come last: at a start that is all of them. */
async function findDue({ control, server }: Deps, state: Measuring): Promise<Due[]> {
  const { seen, inFlight } = state;
  // Counters alone would be late: a session tells its own at the end of a transaction, and up to 10 s after that. A
  // role that may not see what others do takes every session for a busy one.
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
  // A session tells of its writes late, and VACUUM not at all: those that seem to read have their turn too.
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
  // Which one of several took so long comes out when each is measured by itself.
  for (const name of names) {
    if (endedAt - startedAt <= quickMs) quick.add(name);
    else quick.delete(name);
  }
}

/** Those, now. */
export async function measure({ control, server }: Deps, names: string[]): Promise<void> {
  // Through the oid: a database dropped in the meantime gives null instead of an error.
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
