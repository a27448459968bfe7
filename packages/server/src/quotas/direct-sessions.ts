// Direct connections (psql, ORMs) commit without asking us, so limit_mb is held against them from outside: whoever makes
// a full project larger is cancelled, and ended if that is not enough. Nothing is measured while nobody writes.
//
// What PostgreSQL tells of a single session was looked at: pg_stat_get_backend_io counts its extends, but only between
// transactions and once a second, so nothing of a statement that runs. What is live is the size of the database
// (right within milliseconds), whether a session has a transaction id (without one it cannot grow anything), and its
// text, which is no more than a hint.
import type { Control } from '../control/control.ts';
import type { Server } from '../engine/servers.ts';
import { type Database, openDatabase } from '../postgres/database.ts';
import { type Sql, sql } from '../postgres/sql.ts';
import { setDoor, wayIn } from './direct-doors.ts';
import { vacuumTables } from './vacuum.ts';

type Deps = { control: Control; server: Server };
type Log = Record<'warn', (details: object, message: string) => void>;

export type DirectWatch = {
  /** One look, and what follows from it. Without anything to watch it takes up to a second. Returns the pause to make. */
  look(): Promise<number>;
  /** A look that waits comes to its end. */
  wake(): void;
  stop(): Promise<void>;
};

type Seen = {
  pid: number;
  id: string;
  startedAt: string;
  ranAt: string | null;
  isRunning: boolean;
  hasXid: boolean;
  query: string;
};
type Limit = { limitBytes: number; passwordVersion: number };
type Place = Limit & {
  /** At the last look; before the first one, what the control database knows. */
  bytes: number;
  /** What it may go back to: its limit, or what it had before if the limit was lowered under that. */
  floorBytes: number;
  dueAt: number;
  /** Left behind by transactions that were broken off. */
  toVacuum: Set<number>;
  isVacuuming: boolean;
  /** Somebody was stopped, and what is left of it has not been judged yet. */
  hasActed: boolean;
  told: number;
  /** Sessions that had to be ended since it was last under its limit. */
  ended: number;
  /** As far as we have set it; settleDoors may have opened it since. */
  door: 'open' | 'full' | 'closed';
  doorWork: Promise<void>;
};
type Strike = { at: number; ranAt: string | null; startedAt: string; count: number };

const mb = 1024 * 1024;
/** Faster than a session wrote here: 0.55 GB/s, CREATE UNLOGGED TABLE AS with wide rows. */
const bytesPerMs = mb;
const [shortestMs, longestMs] = [10, 1_000];
/** Between two looks at who is there, while somebody is active. */
const lookMs = 25;
/** One that deletes, drops or vacuums may need this much for a moment; others who look harmless too. */
const toleratedBytes = 16 * mb;
/** So far over, a session is ended without being cancelled first. */
const hurryBytes = 8 * mb;
/** And after so many were, nobody is let in any more. */
const endedAtMost = 3;
const patienceMs = 100;
const forgetStrikesMs = 10_000;
const vacuumMs = 20_000;
const tellAgainMs = 10_000;

export function watchDirectSessions({ control, server }: Deps, log: Log): DirectWatch {
  // A connection of its own: this must not wait behind databases that are being made.
  const eye = openDatabase(server.address, { max: 2 });
  const places = new Map<string, Place>();
  /** Of other services on the same server, or deleted. */
  const others = new Set<string>();
  const strikes = new Map<number, Strike>();
  let before = new Map<number, Seen>();
  let mayWatch: boolean | null = null;
  let waitingPid = 0;
  let isWoken = false;
  let limitsReadAt = Number.NEGATIVE_INFINITY;
  const asides = new Set<Promise<void>>();

  /** Nothing that takes its time is waited for here. */
  const aside = (id: string, act: Promise<void>) => {
    const work = act
      .catch((error) =>
        log.warn({ err: error, project: id }, 'a direct connection was stopped, but not all is put right'),
      )
      .finally(() => asides.delete(work));
    asides.add(work);
  };

  const look = async (): Promise<number> => {
    mayWatch ??= await canSee(eye);
    if (!mayWatch) return longestMs;
    const later = [...places].filter(([, { dueAt }]) => dueAt > performance.now()).map(([id]) => id);
    const began = performance.now();
    const { sessions, sizes } = await findSessions(eye, server, later);
    const tookMs = performance.now() - began;
    const busy = new Set(sessions.filter((session) => hasRun(session, before)).map(({ id }) => id));
    for (const [id, { hasActed }] of places) if (hasActed) busy.add(id);
    await keepPlaces(sessions);
    // Those who run something have come with their sizes; others have done it since the last look.
    const missing = [...busy].filter((id) => !sizes.has(id) && isDue(id));
    if (missing.length > 0) for (const [id, bytes] of await readSizes(eye, missing)) sizes.set(id, bytes);
    for (const [id, bytes] of sizes) await judgeSize(id, bytes, tookMs, sessions);
    before = new Map(sessions.map((session) => [session.pid, session]));
    startVacuuming(sessions);
    if (busy.size > 0) return pauseUntilDue(busy);
    await waitForActivity();
    return 0;
  };

  const isDue = (id: string) => (places.get(id)?.dueAt ?? Number.POSITIVE_INFINITY) <= performance.now();

  /** Who is watched, and what limit holds: known before the first statement, where it does not come with the login. */
  const keepPlaces = async (sessions: Seen[]) => {
    const present = new Set(sessions.map(({ id }) => id));
    for (const [id, place] of places) {
      // While it is over, what it may go back to is remembered: else each new session would begin with more.
      if (!present.has(id) && !place.hasActed && place.bytes <= place.limitBytes) places.delete(id);
    }
    for (const [pid, { at }] of strikes) if (performance.now() - at > forgetStrikesMs) strikes.delete(pid);
    const isOld = performance.now() - limitsReadAt > longestMs;
    const isKnown = (id: string) => places.has(id) || others.has(id);
    if (present.size === 0 || (!isOld && [...present].every(isKnown))) return;
    limitsReadAt = performance.now();
    others.clear();
    const limits = await readLimits(control, server, [...new Set([...present, ...places.keys()])]);
    for (const [id, { bytes, ...limit }] of limits) {
      const place = places.get(id);
      if (place) Object.assign(place, limit);
      else places.set(id, newPlace(limit, bytes));
    }
    for (const id of places.keys()) if (!limits.has(id)) places.delete(id);
    for (const id of present) if (!limits.has(id)) others.add(id);
  };

  const judgeSize = async (id: string, bytes: number, tookMs: number, sessions: Seen[]) => {
    const place = places.get(id);
    if (!place) return;
    const grown = bytes - place.bytes;
    place.bytes = bytes;
    if (bytes <= place.limitBytes) Object.assign(place, { ended: 0, door: 'open' });
    place.floorBytes = Math.max(place.limitBytes, Math.min(place.floorBytes, bytes));
    const roomMs = (place.limitBytes - bytes) / bytesPerMs;
    // A database of very many files takes its time to measure: at most a third of it is spent on that.
    const pauseMs = Math.max(Math.min(Math.max(roomMs, shortestMs), longestMs), tookMs * 2);
    place.dueAt = performance.now() + pauseMs;
    if (grown > 0 && bytes > place.limitBytes) await stopGrowth(id, place, sessions);
    if (place.hasActed) judge(id, place, sessions);
  };

  const stopGrowth = async (id: string, place: Place, sessions: Seen[]) => {
    const excess = place.bytes - place.floorBytes;
    const suspects = sessions.filter((session) => session.id === id && isSuspect(session, before, excess));
    if (suspects.length === 0) return;
    const [toCancel, toEnd]: [number[], number[]] = [[], []];
    for (const { pid, startedAt, ranAt } of suspects) {
      const found = strikes.get(pid);
      const strike = found?.startedAt === startedAt ? found : null;
      // The cancel needs a moment; a second strike in another statement is a session that goes on.
      if (
        strike &&
        strike.ranAt === ranAt &&
        performance.now() - strike.at < patienceMs &&
        excess < hurryBytes
      )
        continue;
      const isLast = strike !== null || excess >= hurryBytes;
      (isLast ? toEnd : toCancel).push(pid);
      strikes.set(pid, { at: performance.now(), ranAt, startedAt, count: (strike?.count ?? 0) + 1 });
    }
    if (toCancel.length + toEnd.length === 0) return;
    for (const oid of await act(eye, id, toCancel, toEnd)) place.toVacuum.add(oid);
    place.hasActed = true;
    place.ended += toEnd.length;
    // Whoever was stopped learns at its next login why; settleDoors takes the notice back.
    if (place.door === 'open') putDoor(id, place, 'full');
    // It does not matter any more whether all of it is committed: those who come again are faster than VACUUM.
    if (excess >= toleratedBytes || (excess >= hurryBytes && place.ended >= endedAtMost))
      putDoor(id, place, 'closed');
    if (performance.now() - place.told < tellAgainMs) return;
    place.told = performance.now();
    const facts = { project: id, size_bytes: place.bytes, limit_bytes: place.limitBytes };
    log.warn(
      { ...facts, cancelled: toCancel.length, ended: toEnd.length },
      'direct connections made a full project larger and were stopped',
    );
  };

  /** Once nothing runs and all is vacuumed. What was committed cannot be taken back: nobody comes in to add to it. */
  const judge = (id: string, place: Place, sessions: Seen[]) => {
    if (place.toVacuum.size > 0 || place.isVacuuming || isStopping(id, sessions)) return;
    place.hasActed = false;
    if (place.bytes - place.floorBytes >= hurryBytes) putDoor(id, place, 'closed');
  };

  /** One after the other: a notice that is slow to be set must not open what was closed meanwhile. */
  const putDoor = (id: string, place: Place, state: 'full' | 'closed') => {
    const isTelling = place.door !== 'open';
    place.door = state;
    const door = state === 'full' ? { state } : { state, reopenBytes: place.floorBytes };
    place.doorWork = place.doorWork
      .catch(() => {})
      .then(() => setDoor(server, id, door, isTelling))
      .catch((error) => {
        place.door = 'open';
        throw error;
      });
    aside(id, place.doorWork);
    if (state === 'full') return;
    log.warn(
      { project: id, size_bytes: place.bytes, limit_bytes: place.limitBytes },
      'direct connections took a project too far over its limit: none is let in until there is room',
    );
  };

  const isStopping = (id: string, sessions: Seen[]) =>
    sessions.some(
      ({ pid, ranAt, isRunning, ...session }) =>
        session.id === id && isRunning && strikes.get(pid)?.ranAt === ranAt,
    );

  const startVacuuming = (sessions: Seen[]) => {
    for (const [id, place] of places) {
      if (place.toVacuum.size === 0 || place.isVacuuming || isStopping(id, sessions)) continue;
      const oids = [...place.toVacuum];
      place.toVacuum.clear();
      place.isVacuuming = true;
      const login = { id, passwordVersion: place.passwordVersion };
      const work = vacuumTables({ server }, login, oids, { timeoutMs: vacuumMs }).finally(() => {
        place.isVacuuming = false;
        place.dueAt = 0;
      });
      aside(id, work);
    }
  };

  const pauseUntilDue = (busy: Set<string>): number => {
    const dues = [...busy].map((id) => places.get(id)?.dueAt ?? Number.POSITIVE_INFINITY);
    const nextMs = Math.min(...dues) - performance.now();
    return Math.min(Math.max(nextMs, shortestMs), lookMs);
  };

  /** PostgreSQL looks for us, every 10 ms and for a second at most: no round trips while nothing happens. */
  const waitForActivity = async () => {
    const work = eye.transaction(async (inside) => {
      const [own] = await inside.query<{ pid: number }>(sql`select pg_backend_pid() as pid`);
      waitingPid = own?.pid ?? 0;
      if (isWoken) return;
      await inside.query(sql`
        select from generate_series(1, 100) as n,
          lateral (select pg_stat_clear_snapshot(), pg_sleep(0.01), n as turn offset 0) as pause
        where exists (
          select from pg_stat_get_activity(nullif(pause.turn, pause.turn)) as session
          where ${isDirect(server, sql`session`)} and (${isRunning} or session.state_change > now())
            and session.usesysid <> (select oid from pg_roles where rolname = current_user)
        )
        limit 1`);
    });
    await work
      .catch((error) => {
        if (!isWoken) throw error;
      })
      .finally(() => {
        waitingPid = 0;
      });
  };

  return {
    look,
    wake: () => {
      isWoken = true;
      if (waitingPid > 0) eye.query(sql`select pg_cancel_backend(${waitingPid})`).catch(() => {});
    },
    stop: async () => {
      await Promise.allSettled(asides);
      await eye.end();
    },
  };
}

function newPlace(limit: Limit, bytes: number): Place {
  return {
    ...limit,
    bytes,
    floorBytes: Math.max(bytes, limit.limitBytes),
    dueAt: 0,
    toVacuum: new Set(),
    isVacuuming: false,
    hasActed: false,
    told: Number.NEGATIVE_INFINITY,
    ended: 0,
    door: 'open',
    doorWork: Promise.resolve(),
  };
}

/** It runs something now, or did since the last look. */
function hasRun({ pid, ranAt, isRunning }: Seen, before: ReadonlyMap<number, Seen>): boolean {
  return isRunning || ranAt !== (before.get(pid)?.ranAt ?? null);
}

/**
 * Whose growth it may be. The further over, the less is believed: at first only who has a transaction id and does not
 * say that it deletes; then everybody who has run anything since the last look.
 */
function isSuspect(session: Seen, before: ReadonlyMap<number, Seen>, excess: number): boolean {
  if (!hasRun(session, before)) return false;
  if (excess >= toleratedBytes) return true;
  if (gentle.test(session.query)) return false;
  // One that is over already has no transaction id any more: its text has to do.
  return (
    session.hasXid ||
    (before.get(session.pid)?.hasXid ?? false) ||
    (!session.isRunning && growing.test(session.query))
  );
}

const gentle =
  /^\s*(delete|truncate|drop|vacuum|analyze|rollback|abort|commit|end|begin|start|show|set|close)\b/i;
const growing = /^\s*(insert|update|copy|create|merge|alter|do|call|with|execute|refresh|select\s+lo_)/i;

const isRunning = sql`session.state in ('active', 'fastpath function call')`;

/** Of `row`, with the columns of pg_stat_activity. */
function isDirect(server: Server, row: Sql): Sql {
  const client = sql`${row}.backend_type = 'client backend'`;
  return wayIn(server) === 'socket'
    ? sql`${client} and ${row}.client_port <> -1`
    : sql`${client} and ${row}.application_name not in ('rowhouse', 'rowhouse query')`;
}

/** Whether our role sees what others do and may end it. On a server of ours it is a superuser. */
async function canSee(eye: Database): Promise<boolean> {
  const [row] = await eye.query<{ can: boolean }>(sql`
    select pg_has_role('pg_read_all_stats', 'usage') and pg_has_role('pg_signal_backend', 'usage') as can`);
  return row?.can ?? false;
}

/**
 * A project's role has the name of its database. In the same breath, for every moment counts: how large those databases
 * are in which something runs, but for those in `later`.
 */
async function findSessions(
  eye: Database,
  server: Server,
  later: string[],
): Promise<{ sessions: Seen[]; sizes: Map<string, number> }> {
  const rows = await eye.query<Seen & { bytes: number | null }>(sql`
    with found as materialized (
      select pid, substr(datname, 3) as id, datid, backend_start::text as "startedAt", query_start::text as "ranAt",
             ${isRunning} as "isRunning", backend_xid is not null as "hasXid", left(query, 100) as query
      from pg_stat_activity as session
      where datname like 'p\\_%' and usename = datname and state is not null and ${isDirect(server, sql`session`)}
    ), sizes as materialized (
      select datid, pg_database_size(datid)::float8 as bytes
      from (select distinct datid from found where "isRunning" and id <> all (${later}::text[])) as running
    )
    select found.*, bytes from found left join sizes using (datid)`);
  const sizes = new Map(rows.flatMap(({ id, bytes }) => (bytes === null ? [] : [[id, bytes] as const])));
  return { sessions: rows, sizes };
}

async function readLimits(
  control: Control,
  server: Server,
  ids: string[],
): Promise<Map<string, Limit & { bytes: number }>> {
  const rows = await control.query<Limit & { id: string; bytes: number }>(sql`
    select id, size_bytes::float8 as bytes, (empty_bytes + limit_mb * 1048576::bigint)::float8 as "limitBytes",
           password_version as "passwordVersion"
    from projects where server_id = ${server.id} and deleted_at is null and id = any (${ids}::text[])`);
  return new Map(rows.map(({ id, ...limit }) => [id, limit]));
}

async function readSizes(eye: Database, ids: string[]): Promise<Map<string, number>> {
  const rows = await eye.query<{ id: string; bytes: number | null }>(sql`
    select substr(datname, 3) as id, pg_database_size(oid)::float8 as bytes
    from pg_database where datname = any (${ids.map((id) => `p_${id}`)}::text[])`);
  return new Map(rows.flatMap(({ id, bytes }) => (bytes === null ? [] : [[id, bytes] as const])));
}

/** Cancels and ends; returns the tables that these sessions were changing, in which they leave something behind. */
async function act(eye: Database, id: string, toCancel: number[], toEnd: number[]): Promise<number[]> {
  const [row] = await eye.query<{ oids: number[] }>(sql`
    with touched as materialized (
      select distinct relation::int8 as oid from pg_locks
      where pid = any (${[...toCancel, ...toEnd]}::int[]) and locktype = 'relation' and granted
        and database = (select oid from pg_database where datname = ${`p_${id}`})
        and mode not in ('AccessShareLock', 'RowShareLock')
    ), done as materialized (
      select count(pg_cancel_backend(pid)) as acted from unnest(${toCancel}::int[]) as pid
      union all
      select count(pg_terminate_backend(pid)) from unnest(${toEnd}::int[]) as pid
    )
    select coalesce((select array_agg(oid::float8) from touched), '{}') as oids, (select sum(acted) from done)`);
  return row?.oids ?? [];
}
