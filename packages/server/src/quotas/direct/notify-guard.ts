// The part of the guard (direct-guard.ts) that keeps the notification queue short. All projects of a server share the queue,
// and it shrinks only up to the slowest listener: one that stays in a transaction, or does not read what it is sent, makes
// NOTIFY fail in every project once the queue is full.
//
// PostgreSQL shows neither which sessions listen nor which one is last, and it does not wake an idle listener of another
// database as long as a flood has not committed: then everybody seems to hold the queue back. So all listeners are woken
// first. Those that can read on do, and if the queue does not move after that, somebody holds it back.
//
// Who floods is known: a transaction that commits notifications takes a lock. Its project comes first. The steps:
//
//   long        the sessions of projects that flood are ended, the most likely first, until the queue shrinks: the last one
//               ended has held it back. The guard remembers this project; the next time it loses its direct connections
//   urgent      what the flooding projects still run is ended, so that the queue does not grow
//   threatened  soon it would be full. Only now listeners of others are ended that are busy in a transaction: a slow listener
//               does no harm by itself, and its project is not blamed for what another has done

import { wakingStatement } from '../../servers/guards/notify-queue.ts';
import type { Server } from '../../servers/server.ts';
import { isDirect } from './direct-sessions-sql.ts';

/** Sessions of a project were ended to shorten the queue. */
export type HeldBack = {
  project: string;
  /** The number of sessions. */
  heldBack: number;
  /** The usage of the queue when they were ended. */
  usage: number;
  /** The queue shrank right after. */
  isProven: boolean;
  /** For a repeated offence: no direct connections until then, in milliseconds since the epoch. */
  pausedUntil: number | null;
};
/** Sessions of a project that floods the queue were ended, while a session of another one holds it back. */
export type Flooded = { project: string; flooding: number; usage: number };
/** Listeners that are behind must be woken. */
export type QueueIsLong = { queueUsage: number };

/** The queue counts as long from 128 MB on, or from an eighth of its maximum if that is smaller. */
const longPages = 16_384;
const longPart = 0.125;
/** Between two turns while the queue is long. */
const lookMs = 4;
/** How long to wait for terminated sessions to end, on a busy machine. Until they have, the next project is not tried. */
const patienceMs = 250;
/** A transaction that is younger than this does not hold the queue back: its session reads on when it ends. */
const oldMs = 50;
/** While the queue is long, listeners are woken again and again: a flood that goes on leaves them behind again. */
const wakeEveryMs = 100;
/** A queue that has not moved for this long after all listeners were woken is held back by somebody. */
const stillMs = 150;
/** After this long all likely sessions were ended: from then on all remaining ones are candidates. */
const anybodyMs = 2_000;
/** A listener that reads on shows no progress until it has read all: 400 MB take half a second, and longer on a busy machine. */
const readingMs = 5_000;
/** From this part of its maximum on, a queue that is held back must not grow any more. */
const urgentPart = 0.25;
/** From this part on, or this long before it is full, NOTIFY would soon fail in all projects. */
const [threatenedPart, threatenedSeconds] = [0.5, 1];
/** How long the growth of the queue is measured at least, and when half of what was measured is forgotten. */
const [growthMs, growthHalfMs] = [20, 50];
/** A project has flooded the queue if this part of the growth is its own, and at least an eighth of a long queue. */
const floodPart = 0.25;
/** A flood that has not gone on for this long is over. */
const floodMs = 5_000;
/** A waking that does not end is not waited for. */
const wakingMs = 5_000;
const rememberMs = 3_600_000;
const pauseForMs = 600_000;

export const notifyVariables = `
  queue_limit float8 := least(${longPart}, ${longPages} / coalesce(
    current_setting('max_notify_queue_pages', true)::float8, 1048576));
  queue_usage float8 := 0;
  queue_before float8;
  queue_calm_at timestamptz := clock_timestamp();
  queue_long_at timestamptz;
  queue_last float8 := 0;
  queue_moved_at timestamptz;
  queue_woken_at timestamptz;
  waking_at timestamptz;
  is_held boolean;
  is_reading boolean;
  queue_is_stuck boolean;
  queue_is_threatened boolean;
  growth float8;
  growth_at timestamptz;
  growth_from float8;
  seconds float8;
  floods jsonb := '{}';
  least_flood float8;
  flood record;
  flooder text;
  blocked_pids integer[] := '{}';
  suspect record;
  suspect_id text;
  suspects_tried text[] := '{}';
  suspect_ended_at timestamptz;
  suspect_is_gone boolean := false;
  offences jsonb := '{}';
  paused jsonb := '{}';`;

/** The queue has more than 1 GB. A flood fills the smallest one, of 64 MB, within 100 ms. */
export const isLargeQueue = `queue_limit < ${longPart}`;

/** Runs once a second. */
export const notifyForget = `
      offences := coalesce((
        select jsonb_object_agg(key, value) from jsonb_each(offences)
        where value::float8 > now_ms - ${rememberMs}), '{}');
      paused := coalesce((
        select jsonb_object_agg(key, value) from jsonb_each(paused) where value::float8 > now_ms), '{}');`;

/** Runs in each turn. Querying the usage is what makes PostgreSQL truncate the part that all listeners have read. */
export function notifyTurn(server: Server): string {
  return `
    queue_usage := pg_notification_queue_usage();
    if queue_usage < queue_limit / 2 then
      queue_calm_at := began_at;
      floods := '{}';
    elsif queue_usage > queue_last then
      ${noteFlooder}
    end if;
    if suspect_id is not null and queue_usage < queue_before - queue_limit / 8 then
      now_ms := extract(epoch from began_at) * 1000;
      if suspect.is_culprit and offences ? suspect_id then
        paused := paused || jsonb_build_object(suspect_id, now_ms + ${pauseForMs});
      end if;
      if suspect.is_culprit then offences := offences || jsonb_build_object(suspect_id, now_ms); end if;
      raise info '%', jsonb_build_object(
        'project', suspect_id, 'heldBack', cardinality(suspect.pids), 'usage', queue_before, 'isProven', true,
        'pausedUntil', paused -> suspect_id);
      suspect_id := null;
    end if;
    if queue_usage < queue_limit then
      queue_long_at := null;
      waking_at := null;
      suspect_id := null;
      suspects_tried := '{}';
    elsif suspect_id is not null and not suspect_is_gone
      and suspect_ended_at > began_at - interval '${patienceMs} ms' then
      -- Seen now, it counts from the next turn on: the length of the queue was read before.
      suspect_is_gone := not exists (
        select from pg_stat_get_activity(null) as session where session.pid = any (suspect.pids));
    else
      if suspect_id is not null then
        raise info '%', jsonb_build_object(
          'project', suspect_id, 'heldBack', cardinality(suspect.pids), 'usage', queue_before, 'isProven', false,
          'pausedUntil', null);
        suspect_id := null;
        -- The others may have been left behind meanwhile.
        queue_moved_at := began_at;
        queue_woken_at := null;
      end if;
      ${whetherHeld}
      if queue_is_stuck and queue_usage > ${urgentPart} then
        ${endFloods(server)}
      end if;
      if is_held then
        ${nextSuspect(server)}
        suspect_id := suspect.project;
        if suspect_id is null then
          -- Those who flood no more are not tried again and again while somebody else is busy.
          if queue_is_threatened or exists (select from jsonb_each(floods) where ${isGoingOn}) then
            suspects_tried := '{}';
          end if;
        else
          perform pg_terminate_backend(pid) from unnest(suspect.pids) as pid;
          suspects_tried := suspects_tried || suspect.name;
          suspect_ended_at := began_at;
          suspect_is_gone := false;
          queue_before := queue_usage;
        end if;
      end if;
    end if;
    queue_last := queue_usage;
    if paused <> '{}' then
      perform pg_terminate_backend(session.pid)
      from pg_stat_get_activity(null) as session join pg_database on pg_database.oid = session.datid
      where ${isDirect(server)} and session.usesysid <> us
        and datname like 'p\\_%' and paused ? substr(datname, 3)
        -- A session that is just logging in is refused by the login gate.
        and session.state ~ '^(idle|active|fastpath)';
    end if;`;
}

/**
 * A listener that is reading on. Its state remains idle, but it is in a transaction meanwhile, whose start PostgreSQL reports
 * as that of the session's last statement.
 */
const isReading = `(session.state = 'idle' and session.xact_start is not null
              and session.wait_event is distinct from 'ClientWrite')`;
const mayStillRead = `coalesce(queue_woken_at, began_at) > began_at - interval '${readingMs} ms'`;
/** Sessions to which something is sent and that may not read it. */
const blocked = `array(
          select session.pid from pg_stat_get_activity(null) as session
          where session.state = 'idle' and session.wait_event = 'ClientWrite')`;

/** The lock of a transaction that commits notifications, until it has ended (PreCommit_Notify): on no database in particular. */
const isNotifyLock = `lock.locktype = 'object' and lock.database = 0 and lock.classid = 'pg_database'::regclass
          and lock.objid = 0 and lock.mode = 'AccessExclusiveLock'`;

/** The growth since the last turn is that of the project whose transaction writes now. */
const noteFlooder = `
      select substr(database.datname, 3) into flooder
      from pg_locks as lock
        cross join lateral pg_stat_get_activity(lock.pid) as session
        join pg_database as database on database.oid = session.datid
      where ${isNotifyLock} and lock.granted and database.datname like 'p\\_%'
      limit 1;
      if flooder is not null then
        floods := floods || jsonb_build_object(flooder, jsonb_build_object(
          'part', queue_usage - queue_last + coalesce((floods -> flooder -> 'part')::float8, 0),
          'at', extract(epoch from began_at) * 1000));
      end if;`;

const isGoingOn = `(value -> 'part')::float8 >= least_flood
            and (value -> 'at')::float8 > extract(epoch from began_at) * 1000 - ${floodMs}`;

/** Ends what the projects run that go on flooding. A transaction that only collects notifications has no lock yet. */
function endFloods(server: Server): string {
  return `
        for flood in
          select project.id as project, count(*) as sessions
          from jsonb_each(floods) as given
            join public.projects as project on project.id = given.key and project.server_id = ${server.id}
            join pg_database as database on database.datname = 'p_' || project.id
            join pg_stat_get_activity(null) as session on session.datid = database.oid
            cross join lateral pg_terminate_backend(session.pid)
          where ${isGoingOn} and session.backend_type = 'client backend' and session.usesysid <> us
            and session.state <> 'idle' and (
              session.xact_start < began_at - interval '${oldMs} ms'
              or exists (select from pg_locks as lock where lock.pid = session.pid and ${isNotifyLock}))
          group by project.id
        loop
          raise info '%', jsonb_build_object(
            'project', flood.project, 'flooding', flood.sessions, 'usage', queue_usage);
        end loop;`;
}

/**
 * Has the listeners woken, and decides whether somebody holds the queue back. The session that wakes them keeps the time of
 * its last notification. Usage that falls from one turn to the next means that the last listener moved.
 */
const whetherHeld = `
      if queue_long_at is null then
        queue_long_at := began_at;
        queue_moved_at := began_at;
        queue_woken_at := null;
        blocked_pids := ${blocked};
        growth := (queue_usage - queue_limit / 2) / greatest(extract(epoch from began_at - queue_calm_at), 0.001);
        growth_at := began_at;
        growth_from := queue_usage;
      elsif queue_usage < queue_last then
        queue_moved_at := began_at;
        queue_woken_at := null;
      end if;
      if growth_at < began_at - interval '${growthMs} ms' then
        seconds := extract(epoch from began_at - growth_at);
        growth := greatest(growth * 0.5 ^ (seconds * 1000 / ${growthHalfMs}), (queue_usage - growth_from) / seconds);
        growth_at := began_at;
        growth_from := queue_usage;
      end if;
      least_flood := greatest(queue_limit / 8, ${floodPart} * coalesce((
        select sum((value -> 'part')::float8) from jsonb_each(floods)), 0));
      if waking_at is null or waking_at < began_at - interval '${wakeEveryMs} ms' then
        waking_at := began_at;
        raise info '%', jsonb_build_object('queueUsage', queue_usage);
      end if;
      if queue_woken_at is null then
        select min(session.state_change) into queue_woken_at from pg_stat_get_activity(null) as session
        where session.usesysid = us and session.state = 'idle' and session.query = '${wakingStatement}'
          and session.state_change > queue_moved_at;
        if queue_woken_at is not null then blocked_pids := ${blocked}; end if;
      end if;
      is_reading := ${mayStillRead} and exists (
        select from pg_stat_get_activity(null) as session where ${isReading});
      queue_is_stuck := not is_reading
        and coalesce(queue_woken_at, queue_moved_at + interval '${wakingMs} ms') < began_at - interval '${stillMs} ms';
      queue_is_threatened := queue_usage > ${threatenedPart} or 1 - queue_usage < growth * ${threatenedSeconds};
      is_held := queue_is_stuck or queue_is_threatened and queue_usage > ${urgentPart};`;

/**
 * Chooses one project, with all its sessions of the same tier: those of projects that flood first, those of others only if the
 * queue is threatened. Tier 0: a project with an earlier offence. 1: sessions that are stuck while notifications are sent to
 * them, or whose text says LISTEN. 2: idle in a transaction. 3: in a transaction, if the session can have listened before; our
 * own sessions are clean when a statement begins, so there only a procedure that commits can. At last, if the queue is
 * threatened, (4) all other direct sessions that did not move although they were woken, and (5) our own in a transaction: first
 * those of projects that were tried before.
 */
function nextSuspect(server: Server): string {
  return `
      select found.project, found.pids, found.name, found.is_culprit into suspect
      from (
        select project.id as project, is_culprit, tier, tier || ' ' || project.id as name, array_agg(session.pid) as pids,
               min(session.xact_start) as began, min(session.xact_start) <= queue_calm_at as is_early
        from pg_stat_get_activity(null) as session
          cross join lateral (select datname from pg_database where oid = session.datid offset 0) as database
          cross join lateral (
            select id from public.projects
            where id = substr(database.datname, 3) and server_id = ${server.id} offset 0
          ) as project
          cross join lateral (
            select coalesce((floods -> project.id -> 'part')::float8 >= least_flood, false) as is_culprit
          ) as blame
          cross join lateral (
            select coalesce(session.xact_start < began_at - interval '${oldMs} ms', false) as is_old,
                   ${isDirect(server)} as is_direct,
                   session.wait_event = 'ClientWrite' and session.pid = any (blocked_pids) as is_stuck
          ) as it
          cross join lateral (select case
            when ${isReading} and ${mayStillRead} then null
            when offences ? project.id and (is_old or is_stuck) then 0
            when is_direct and (is_stuck or is_old and session.query ~* '\\ylisten\\y') then 1
            when is_direct and is_old and session.state like 'idle in transaction%' then 2
            when is_old and (is_direct or session.xact_start > session.query_start) then 3
            when is_reading or not queue_is_threatened or coalesce(queue_woken_at, began_at) > began_at - interval '${anybodyMs} ms' then null
            when is_direct then 4
            when is_old then 5
          end as tier) as likely
        where database.datname like 'p\\_%' and session.backend_type = 'client backend' and session.usesysid <> us
          and tier is not null and (is_culprit or queue_is_threatened)
        group by project.id, is_culprit, tier
      ) as found
      where found.name <> all (suspects_tried)
      order by found.is_culprit desc, found.tier, exists (
          select from unnest(suspects_tried) as tried where split_part(tried, ' ', 2) = found.project) desc,
        found.is_early desc, found.began
      limit 1;`;
}

export const notifyLookMs = lookMs;
