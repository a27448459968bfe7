// The watch itself: a loop that runs inside PostgreSQL, so that nobody waits for this process to have its turn between
// seeing that a project grows too large and stopping it. What follows from it is told, and done by direct-sessions.ts.
//
// What PostgreSQL tells of a single session was looked at: pg_stat_get_backend_io counts its extends, but only between
// transactions and once a second, so nothing of a statement that runs. What is live is the size of the database
// (right within milliseconds), whether a session has a transaction id (without one it cannot grow anything), and its
// text, which is no more than a hint.
import type { Control } from '../control/control.ts';
import type { Server } from '../engine/servers.ts';
import { sql } from '../postgres/sql.ts';
import { isDirect, mayBeAnyone } from './direct-sessions-sql.ts';
import {
  type HeldBack,
  notifyForget,
  notifyLookMs,
  notifyTurn,
  notifyVariables,
  type QueueIsLong,
} from './notify-guard.ts';

type Deps = { control: Control; server: Server };

/** Somebody made a full project larger and was stopped. */
export type Stop = {
  project: string;
  at: number;
  bytes: number;
  limitBytes: number;
  /** What it may go back to: its limit, or what it had before if the limit was lowered under that. */
  floorBytes: number;
  /** Process ids. Whoever went on after a cancel, or is far over, is ended. */
  cancelled: number[];
  ended: number[];
  /** Nobody is to be let in any more until there is room: those who come again are faster than VACUUM. */
  isTooFar: boolean;
  /** The first since it was last under its limit. */
  isFirst: boolean;
  /** Tables that these sessions were changing, in which they leave something behind. */
  tables: number[];
};
export type Unmeasured = { project: string; error: string };
export type GuardEvent = Stop | Unmeasured | HeldBack | QueueIsLong;

const mb = 1024 * 1024;
/** Between two looks: while nobody is there, while somebody is, and at the size while somebody writes near the limit. */
const [emptyMs, lookMs, nearMs] = [20, 10, 4];
/** While nobody is there, nothing has been written for a while, and no project is so near to its limit that it matters. */
const [quietMs, quietAfterMs, quietBytes] = [50, 2_000, 256 * mb];
/** Several sessions on several cores: one alone wrote 0.7 GB/s here. */
const bytesPerMs = 4 * mb;
const longestMs = 1_000;
/** One that deletes, drops or vacuums may need this much for a moment; others who look harmless too. */
const toleratedBytes = 16 * mb;
/** So far over, a session is ended without being cancelled first. */
export const hurryBytes = 8 * mb;
/** And after so many were, nobody is let in any more. */
const endedAtMost = 3;
const patienceMs = 100;
const forgetStrikesMs = 10_000;

/** Goes on until `ended`, or until the connection is lost. */
export async function guardDirectSessions(
  { control, server }: Deps,
  onEvent: (event: GuardEvent) => void,
  ended: AbortSignal,
): Promise<void> {
  // Limits are read where they are set, at each look: the control database is on the projects' own server.
  const statement = sql`do ${sql.literal(loop(server))}`;
  const onMessage = (text: string) => {
    if (text.startsWith('{')) onEvent(JSON.parse(text));
  };
  await control.follow(statement, onMessage, ended);
}

/** Each turn is a transaction: it sees what is committed, and keeps no old row alive. */
function loop(server: Server): string {
  const who = `${isDirect(server)} and session.usesysid <> us`;
  const hasRun = `(${isRunning} or session.state_change >= looked_at)`;
  return `
declare
  us oid := (select oid from pg_roles where rolname = current_user);
  places jsonb := '{}';
  strikes jsonb := '{}';
  had_xid integer[] := '{}';
  has_xid integer[];
  looked_at timestamptz := clock_timestamp();
  began_at timestamptz;
  told_at timestamptz := clock_timestamp();
  place record;
  state jsonb;
  now_ms float8;
  pause_ms float8 := 0;
  due_ms float8;
  bytes bigint;
  floor_bytes bigint;
  excess bigint;
  seen_xids integer;
  xid_at timestamptz := clock_timestamp();
  is_quiet boolean := false;
  xids integer;
  is_anyone boolean := true;
  is_any_xid boolean := true;
  is_any_closed boolean := true;
  is_busy boolean;
  is_growing boolean;
  is_too_far boolean;
  tables bigint[];
  to_cancel integer[];
  to_end integer[];${notifyVariables}
begin
  loop
    commit;
    perform pg_sleep(pause_ms / 1000);
    began_at := clock_timestamp();
    pause_ms := ${lookMs};
    has_xid := '{}';
    if told_at < began_at - interval '1 s' then
      told_at := began_at;
      -- Of a client that is gone PostgreSQL learns when it sends something.
      raise info '';
      now_ms := extract(epoch from began_at) * 1000;
      strikes := coalesce((
        select jsonb_object_agg(key, value) from jsonb_each(strikes)
        where (value -> 'at')::float8 > now_ms - ${forgetStrikesMs}), '{}');
      -- While it is over, what it may go back to is remembered: else each new session would begin with more.
      places := coalesce((
        select jsonb_object_agg(key, value) from jsonb_each(places) join public.projects on id = key
        where (value -> 'due')::float8 > now_ms - ${forgetStrikesMs}
          or (value -> 'bytes')::bigint > (value -> 'limit')::bigint), '{}');
      is_any_closed := exists (select from jsonb_each(places) where value ->> 'closed' is not null);${notifyForget}
    end if;
${notifyTurn(server)}
    -- Nothing grows without a transaction id. The next one to be given out is the cheapest thing to look at; before the
    -- sessions, so that whoever gets one from here on is seen the next time.
    xids := age('3'::xid);
    if xids = seen_xids and not is_any_xid and not is_any_closed and queue_long_at is null then
      if not is_anyone then
        if not is_quiet and xid_at < began_at - interval '${quietAfterMs} ms' then
          is_quiet := not exists (
            select from public.projects
            where server_id = ${server.id} and deleted_at is null
              and size_bytes + ${quietBytes} > empty_bytes + limit_mb * 1048576::bigint);
          xid_at := began_at;
        end if;
        pause_ms := case when is_quiet then ${quietMs} else ${emptyMs} end;
      end if;
      looked_at := began_at;
      continue;
    end if;
    if xids <> seen_xids then
      is_quiet := false;
      xid_at := began_at;
    end if;
    seen_xids := xids;
    is_anyone := ${mayBeAnyone(server)};
    is_busy := false;
    is_any_xid := false;
    if is_anyone then
      select count(*) > 0, coalesce(bool_or(${hasRun}), false), coalesce(bool_or(session.backend_xid is not null), false)
      into is_anyone, is_busy, is_any_xid
      from pg_stat_get_activity(null) as session where ${who};
    end if;
    if not is_busy then
      if not is_anyone then pause_ms := ${emptyMs}; end if;
      if queue_long_at is not null then pause_ms := ${notifyLookMs}; end if;
      had_xid := '{}';
      looked_at := began_at;
      continue;
    end if;
    for place in
      select project.id, session.datid, project.size_bytes,
             project.empty_bytes + project.limit_mb * 1048576::bigint as limit_bytes,
             array_agg(session.pid) filter (where session.backend_xid is not null) as has_xid,
             bool_or(not ${isRunning}) as has_ended,
             jsonb_agg(jsonb_build_object(
               'pid', session.pid, 'came', session.backend_start, 'ran', session.query_start,
               'running', ${isRunning}, 'xid', session.backend_xid is not null,
               'text', left(session.query, 100))) as sessions
      from pg_stat_get_activity(null) as session
        cross join lateral (select datname from pg_database where oid = session.datid offset 0) as database
        cross join lateral (select rolname from pg_roles where oid = session.usesysid offset 0) as role
        cross join lateral (
          select id, size_bytes, empty_bytes, limit_mb from public.projects
          where id = substr(database.datname, 3) and server_id = ${server.id} and deleted_at is null offset 0
        ) as project
      where ${who} and ${hasRun}
        and database.datname like 'p\\_%' and role.rolname = database.datname
      group by project.id, session.datid, project.size_bytes, project.empty_bytes, project.limit_mb
    loop
      has_xid := has_xid || coalesce(place.has_xid, '{}');
      now_ms := extract(epoch from clock_timestamp()) * 1000;
      state := coalesce(places -> place.id, jsonb_build_object(
        'bytes', place.size_bytes, 'floor', greatest(place.size_bytes, place.limit_bytes), 'due', 0,
        'ended', 0, 'acted', false, 'closed', null));
      due_ms := (state -> 'due')::float8;
      if due_ms > now_ms then
        pause_ms := least(pause_ms, greatest(due_ms - now_ms, ${nearMs}));
        continue;
      end if;
      -- Readers cost nothing: who has no transaction id, and had none, has made nothing larger.
      if place.has_xid is null and not place.has_ended and places ? place.id
        and not exists (select from jsonb_array_elements(place.sessions) as s where (s -> 'pid')::integer = any (had_xid))
      then
        continue;
      end if;
      begin
        bytes := pg_database_size(place.datid);
      exception when others then
        raise info '%', jsonb_build_object('project', place.id, 'error', sqlerrm);
        bytes := null;
      end;
      if bytes is null then
        places := places || jsonb_build_object(place.id, state || jsonb_build_object('due', now_ms + ${longestMs}));
        continue;
      end if;
      floor_bytes := greatest(place.limit_bytes, least((state -> 'floor')::bigint, bytes));
      excess := bytes - floor_bytes;
      if bytes <= place.limit_bytes then
        state := state || '{"ended": 0, "acted": false}';
      end if;
      if bytes <= greatest(place.limit_bytes, (state ->> 'reopen')::bigint) then
        state := state || '{"closed": null}';
      end if;
      is_growing := bytes > place.limit_bytes and bytes > (state -> 'bytes')::bigint;
      if is_growing or state ->> 'closed' is not null then
        -- The further over, the less is believed: at first only who has a transaction id and does not say that it
        -- deletes; then everybody who has run anything since the last look. One that is over already has no
        -- transaction id any more: its text has to do. The cancel needs a moment; a second strike in another
        -- statement is a session that goes on. Who comes in after the door was closed found it not shut yet.
        select coalesce(array_agg(pid) filter (where not is_last), '{}'),
               coalesce(array_agg(pid) filter (where is_last), '{}')
        into to_cancel, to_end
        from (
          select pid, strike is not null or is_late or excess >= ${hurryBytes} as is_last
          from jsonb_to_recordset(place.sessions) as s (pid integer, came text, ran text, running boolean, xid boolean, text text)
            left join lateral (select strikes -> pid::text as strike) as found on strike ->> 'came' = came
            cross join lateral (
              select coalesce(came::timestamptz > (state ->> 'closed')::timestamptz, false) as is_late
            ) as door
          where (is_late or is_growing and (
                   excess >= ${toleratedBytes}
                   or text !~* '${gentle}' and (xid or pid = any (had_xid) or not running and text ~* '${growing}')))
            and not (strike is not null and (strike ->> 'ended')::boolean and (strike -> 'at')::float8 > now_ms - ${patienceMs})
            and not (strike is not null and strike ->> 'ran' = ran and (strike -> 'at')::float8 > now_ms - ${patienceMs}
                     and excess < ${hurryBytes})
        ) as suspect;
        if cardinality(to_cancel) + cardinality(to_end) > 0 then
          tables := array(
            select distinct relation::bigint from pg_locks
            where pid = any (to_cancel || to_end) and locktype = 'relation' and granted and database = place.datid
              and mode not in ('AccessShareLock', 'RowShareLock'));
          perform pg_cancel_backend(pid) from unnest(to_cancel) as pid;
          perform pg_terminate_backend(pid) from unnest(to_end) as pid;
          state := state || jsonb_build_object('ended', (state -> 'ended')::integer + cardinality(to_end));
          is_too_far := excess >= ${toleratedBytes} or state ->> 'closed' is not null
            or excess >= ${hurryBytes} and (state -> 'ended')::integer >= ${endedAtMost};
          raise info '%', jsonb_build_object(
            'project', place.id, 'at', now_ms, 'bytes', bytes, 'limitBytes', place.limit_bytes,
            'floorBytes', floor_bytes, 'cancelled', to_cancel, 'ended', to_end, 'tables', tables,
            'isTooFar', is_too_far, 'isFirst', not (state -> 'acted')::boolean);
          state := state || '{"acted": true}';
          if is_too_far and state ->> 'closed' is null then
            state := state || jsonb_build_object('closed', clock_timestamp(), 'reopen', floor_bytes);
            is_any_closed := true;
          end if;
          strikes := strikes || (
            select jsonb_object_agg(pid, jsonb_build_object(
                     'came', came, 'ran', ran, 'at', now_ms, 'ended', pid = any (to_end)))
            from jsonb_to_recordset(place.sessions) as s (pid integer, came text, ran text)
            where pid = any (to_cancel || to_end));
        end if;
      end if;
      -- A database of very many files takes its time to measure: at most a third of it is spent on that.
      due_ms := greatest(
        least((place.limit_bytes - bytes) / ${bytesPerMs}::float8, ${longestMs}), ${nearMs},
        2 * (extract(epoch from clock_timestamp()) * 1000 - now_ms));
      pause_ms := least(pause_ms, due_ms);
      places := places || jsonb_build_object(place.id, state || jsonb_build_object(
        'bytes', bytes, 'floor', floor_bytes, 'limit', place.limit_bytes, 'due', now_ms + due_ms));
    end loop;
    if queue_long_at is not null then pause_ms := least(pause_ms, ${notifyLookMs}); end if;
    had_xid := has_xid;
    looked_at := began_at;
  end loop;
end`;
}

const isRunning = `session.state in ('active', 'fastpath function call')`;

/** It may make room. */
export const gentle = String.raw`^\s*(delete|truncate|drop|vacuum|analyze|rollback|abort|commit|end|begin|start|show|set|close)\y`;
const growing = String.raw`^\s*(insert|update|copy|create|merge|alter|do|call|with|execute|refresh|select\s+lo_)`;
