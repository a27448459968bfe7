// The part of the watch (direct-guard.ts) that keeps the queue of notifications short. All projects of a server share it,
// and it gets no shorter than the slowest listener: one that stays in a transaction, or does not read what it is sent,
// makes every neighbour's NOTIFY fail once the queue is full.
//
// PostgreSQL does not tell who listens, nor who is last. So projects are ended one after the other, the likeliest first,
// until the queue is shorter: the one after which it is has held it back. It is remembered, and the next time it loses
// its direct connections for a while.
import type { Server } from '../engine/servers.ts';
import { isDirect } from './direct-sessions-sql.ts';

/** Sessions of a project were ended because of the queue. */
export type HeldBack = {
  project: string;
  /** How many sessions. */
  heldBack: number;
  /** Of the queue, when they were ended. */
  usage: number;
  /** It got shorter right after. */
  isProven: boolean;
  /** It has done so before: no direct connection until then, in ms of the clock. */
  pausedUntil: number | null;
};
/** Somebody has to wake listeners that are behind and idle. */
export type QueueIsLong = { queueUsage: number };

/** The queue is long from 128 MB on, or an eighth of a small one. */
const longPages = 16_384;
const longPart = 0.125;
/** Between two looks while it is long. */
const lookMs = 4;
/** A session that was ended needs a moment to go. */
const patienceMs = 16;
/** Whoever ends its transaction sooner than this reads on, and holds nothing back. */
const oldMs = 50;
/** By then all who are likely were ended: from now on everybody who is left. */
const anybodyMs = 150;
const rememberMs = 3_600_000;
const pauseForMs = 600_000;

export const notifyVariables = `
  queue_limit float8 := least(${longPart}, ${longPages} / coalesce(
    current_setting('max_notify_queue_pages', true)::float8, 1048576));
  queue_usage float8 := 0;
  queue_before float8;
  queue_calm_at timestamptz := clock_timestamp();
  queue_long_at timestamptz;
  suspect record;
  suspect_id text;
  suspects_tried text[] := '{}';
  suspect_ended_at timestamptz;
  offences jsonb := '{}';
  paused jsonb := '{}';`;

/** Once a second. */
export const notifyForget = `
      offences := coalesce((
        select jsonb_object_agg(key, value) from jsonb_each(offences)
        where value::float8 > now_ms - ${rememberMs}), '{}');
      paused := coalesce((
        select jsonb_object_agg(key, value) from jsonb_each(paused) where value::float8 > now_ms), '{}');`;

/** At each look. To ask for its length is what makes PostgreSQL give back what everybody has read. */
export function notifyTurn(server: Server): string {
  return `
    queue_usage := pg_notification_queue_usage();
    if queue_usage < queue_limit / 2 then queue_calm_at := began_at; end if;
    if suspect_id is not null and queue_usage < queue_before - queue_limit / 8 then
      now_ms := extract(epoch from began_at) * 1000;
      if offences ? suspect_id then
        paused := paused || jsonb_build_object(suspect_id, now_ms + ${pauseForMs});
      end if;
      offences := offences || jsonb_build_object(suspect_id, now_ms);
      raise info '%', jsonb_build_object(
        'project', suspect_id, 'heldBack', cardinality(suspect.pids), 'usage', queue_before, 'isProven', true,
        'pausedUntil', paused -> suspect_id);
      suspect_id := null;
    end if;
    if queue_usage < queue_limit then
      queue_long_at := null;
      suspect_id := null;
      suspects_tried := '{}';
    elsif suspect_id is null or suspect_ended_at < began_at - interval '${patienceMs} ms' then
      if suspect_id is not null then
        raise info '%', jsonb_build_object(
          'project', suspect_id, 'heldBack', cardinality(suspect.pids), 'usage', queue_before, 'isProven', false,
          'pausedUntil', null);
      end if;
      if queue_long_at is null then
        queue_long_at := began_at;
        raise info '%', jsonb_build_object('queueUsage', queue_usage);
      end if;
      ${nextSuspect(server)}
      suspect_id := suspect.project;
      if suspect_id is null then
        suspects_tried := '{}';
      else
        perform pg_terminate_backend(pid) from unnest(suspect.pids) as pid;
        suspects_tried := suspects_tried || suspect.name;
        suspect_ended_at := began_at;
        queue_before := queue_usage;
      end if;
    end if;
    if paused <> '{}' then
      perform pg_terminate_backend(session.pid)
      from pg_stat_get_activity(null) as session join pg_database on pg_database.oid = session.datid
      where ${isDirect(server)} and session.usesysid <> us
        and datname like 'p\\_%' and paused ? substr(datname, 3)
        -- Whoever only comes in is told by the guard of the login.
        and session.state ~ '^(idle|active|fastpath)';
    end if;`;
}

/**
 * Each project on its own, with all its sessions that are as likely. First a project that is known for it; then who is
 * stuck while it is sent notifications, or says LISTEN; who is in a transaction and does nothing; who is in one at all, if
 * it can have listened before: a session of ours is clean when a statement begins, so there only a procedure that
 * commits can. At last those that are idle and were not woken, and whatever else is ours.
 */
function nextSuspect(server: Server): string {
  return `
      select found.project, found.pids, found.name into suspect
      from (
        select project.id as project, tier, tier || ' ' || project.id as name, array_agg(session.pid) as pids,
               min(session.xact_start) as began, min(session.xact_start) <= queue_calm_at as is_early
        from pg_stat_get_activity(null) as session
          cross join lateral (select datname from pg_database where oid = session.datid offset 0) as database
          cross join lateral (
            select id from public.projects
            where id = substr(database.datname, 3) and server_id = ${server.id} offset 0
          ) as project
          cross join lateral (
            select coalesce(session.xact_start < began_at - interval '${oldMs} ms', false) as is_old,
                   ${isDirect(server)} as is_direct,
                   session.state = 'idle' and session.wait_event = 'ClientWrite' as is_stuck
          ) as it
          cross join lateral (select case
            when offences ? project.id and (is_old or is_stuck) then 0
            when is_direct and (is_stuck or is_old and session.query ~* '\\ylisten\\y') then 1
            when is_direct and is_old and session.state like 'idle in transaction%' then 2
            when is_old and (is_direct or session.xact_start > session.query_start) then 3
            when queue_long_at > began_at - interval '${anybodyMs} ms' then null
            when is_direct then 4
            when is_old then 5
          end as tier) as likely
        where database.datname like 'p\\_%' and session.backend_type = 'client backend' and session.usesysid <> us
          and tier is not null
        group by project.id, tier
      ) as found
      where found.name <> all (suspects_tried)
      order by found.tier, found.is_early desc, found.began
      limit 1;`;
}

export const notifyLookMs = lookMs;
