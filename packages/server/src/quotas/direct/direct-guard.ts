// The guard over direct sessions: a loop that runs inside PostgreSQL, so that no delay of this process lies between
// detecting that a project grows too large and stopping it. The loop reports its actions as events; direct-sessions.ts
// handles them.
//
// What PostgreSQL reports about a single session does not suffice: pg_stat_get_backend_io counts its extends, but only
// between transactions and once a second, so nothing of a running statement. Three values are live: the size of the
// database (correct within milliseconds), whether a session has a transaction id (without one it cannot grow anything), and
// the text of its statement, which is only a hint.

import { mb } from '../../lib/bytes.ts';
import type { Database } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import type { Server } from '../../servers/server.ts';
import { isDirect, mayHaveDirectSessions } from './direct-sessions-sql.ts';
import {
  type Flooded,
  type HeldBack,
  isLargeQueue,
  notifyForget,
  notifyLookMs,
  notifyTurn,
  notifyVariables,
  type QueueIsLong,
} from './notify-guard.ts';

/** `limits`: a database on the same server that has the table `projects`. */
type Deps = { limits: Database; server: Server };

/** Sessions that made a full project larger were stopped. */
export type Stop = {
  project: string;
  at: number;
  bytes: number;
  limitBytes: number;
  /** The size to return to: the limit, or the size before if the limit was lowered below it. */
  floorBytes: number;
  /** Process ids. A session that continues after a cancel, or is far over the limit, is terminated. */
  cancelled: number[];
  ended: number[];
  /** No direct login until the project has shrunk: sessions that reconnect are faster than VACUUM. */
  isTooFar: boolean;
  /** The first stop since the project was last below its limit. */
  isFirst: boolean;
  /** Tables that these sessions were changing, where they leave dead rows. */
  tables: number[];
};
export type Unmeasured = { project: string; error: string };
export type GuardEvent = Stop | Unmeasured | HeldBack | Flooded | QueueIsLong;

/** Between two turns without direct sessions, two turns with them, and two measurements while one writes near the limit. */
const [emptyMs, lookMs, nearMs] = [20, 10, 4];
/**
 * Without direct sessions, after a while in which nothing was written, so that the recorded sizes are right: the more the project
 * nearest to its limit has left, the later the next turn.
 */
const [quietMs, longestQuietMs, quietAfterMs, quietBytesPerMs] = [50, 100, 25_000, 5 * mb];
/** The assumed write rate of several sessions on several cores. A single one wrote 0.7 GB/s when measured. */
const bytesPerMs = 4 * mb;
/** The longest pause between two looks at a project. */
const maxPauseMs = 1_000;
/** A session that deletes, drops or vacuums may temporarily need this much; so may others that look harmless. */
const toleratedBytes = 16 * mb;
/** This far over the limit, a session is terminated without a cancel before. */
export const terminateBytes = 8 * mb;
/** After so many terminations, direct logins are refused. */
const maxTerminations = 3;
const patienceMs = 100;
const forgetStrikesMs = 10_000;

/** Runs until `ended`, or until the connection is lost. */
export async function guardDirectSessions(
  { limits, server }: Deps,
  onEvent: (event: GuardEvent) => void,
  ended: AbortSignal,
): Promise<void> {
  // Each turn reads the limits: from the control database, or on a further server from a copy (limits-copy.ts).
  const statement = sql`do ${sql.literal(loop(server))}`;
  const onMessage = (text: string) => {
    if (text.startsWith('{')) onEvent(JSON.parse(text));
  };
  await limits.follow(statement, onMessage, ended);
}

/** Each turn is a transaction of its own: it sees committed changes, and keeps no old row versions alive. */
function loop(server: Server): string {
  const who = `${isDirect(server)} and session.usesysid <> us`;
  const hasRun = `(${isRunning} or session.state_change >= looked_at)`;
  return `
declare
  us oid := (select oid from pg_roles where rolname = current_user);
  targets jsonb := '{}';
  strikes jsonb := '{}';
  had_xid integer[] := '{}';
  has_xid integer[];
  looked_at timestamptz := clock_timestamp();
  began_at timestamptz;
  told_at timestamptz := clock_timestamp();
  target record;
  state jsonb;
  now_ms float8;
  pause_ms float8 := 0;
  due_ms float8;
  bytes bigint;
  floor_bytes bigint;
  excess bigint;
  seen_xids integer;
  xid_at timestamptz := clock_timestamp();
  quiet_ms float8;
  is_still boolean := false;
  xids integer;
  has_direct boolean := true;
  has_any_xid boolean := true;
  has_closed boolean := true;
  is_busy boolean;
  is_growing boolean;
  is_too_far boolean;
  tables bigint[];
  to_cancel integer[];
  to_end integer[];${notifyVariables}
begin
  loop
    commit;
    if is_still then
      -- Nothing needs attention. All of a turn is one expression, whose parts run in this order: each further statement costs
      -- more than all that it reads. Once a second there is an ordinary turn.
      while pg_sleep(pause_ms / 1000) is not null and age('3'::xid) = seen_xids
        and pg_notification_queue_usage() < queue_limit / 2 and clock_timestamp() < told_at + interval '1 s'
      loop
        -- The time of the turn before, because the queue was read before now.
        queue_calm_at := began_at;
        began_at := clock_timestamp();
        commit;
      end loop;
      -- Within a transaction, age() stays as it was first read.
      commit;
      is_still := false;
      -- What ended before that is not looked at again.
      looked_at := greatest(looked_at, queue_calm_at);
    else
      perform pg_sleep(pause_ms / 1000);
    end if;
    began_at := clock_timestamp();
    pause_ms := ${lookMs};
    has_xid := '{}';
    if told_at <= began_at - interval '1 s' then
      told_at := began_at;
      -- PostgreSQL detects a lost client only when it sends something.
      raise info '';
      -- The last direct session may have ended without a trace.
      has_direct := has_direct and exists (select from pg_stat_get_activity(null) as session where ${who});
      now_ms := extract(epoch from began_at) * 1000;
      strikes := coalesce((
        select jsonb_object_agg(key, value) from jsonb_each(strikes)
        where (value -> 'at')::float8 > now_ms - ${forgetStrikesMs}), '{}');
      -- While a project is over its limit, its floor is remembered: otherwise each new session would start from a larger one.
      targets := coalesce((
        select jsonb_object_agg(key, value) from jsonb_each(targets) join public.projects on id = key
        where (value -> 'due')::float8 > now_ms - ${forgetStrikesMs}
          or (value -> 'bytes')::bigint > (value -> 'limit')::bigint), '{}');
      has_closed := exists (select from jsonb_each(targets) where value ->> 'closed' is not null);${notifyForget}
    end if;
${notifyTurn(server)}
    -- Nothing grows without a transaction id, and the next id is the cheapest value to read. It is read before the
    -- sessions, so that a session that gets an id from here on is seen in the next turn.
    xids := age('3'::xid);
    if xids = seen_xids and not has_any_xid and not has_closed and queue_long_at is null then
      if not has_direct then
        if quiet_ms is null and xid_at < began_at - interval '${quietAfterMs} ms' then
          select min(empty_bytes + limit_mb * 1048576::bigint - size_bytes) / ${quietBytesPerMs}::float8 into quiet_ms
          from public.projects where server_id = ${server.id} and deleted_at is null;
          quiet_ms := case when quiet_ms < ${quietMs} then null
            else least(quiet_ms, case when ${isLargeQueue} then ${longestQuietMs} else ${quietMs} end) end;
          xid_at := began_at;
        end if;
        pause_ms := coalesce(quiet_ms, ${emptyMs});
        -- Sessions of projects that lost their direct connections are ended in each turn.
        is_still := paused = '{}';
      end if;
      looked_at := began_at;
      continue;
    end if;
    if xids <> seen_xids then
      quiet_ms := null;
      xid_at := began_at;
    end if;
    seen_xids := xids;
    has_direct := ${mayHaveDirectSessions(server)};
    is_busy := false;
    has_any_xid := false;
    if has_direct then
      select count(*) > 0, coalesce(bool_or(${hasRun}), false), coalesce(bool_or(session.backend_xid is not null), false)
      into has_direct, is_busy, has_any_xid
      from pg_stat_get_activity(null) as session where ${who};
    end if;
    if not is_busy then
      if not has_direct then pause_ms := ${emptyMs}; end if;
      if queue_long_at is not null then pause_ms := ${notifyLookMs}; end if;
      had_xid := '{}';
      looked_at := began_at;
      continue;
    end if;
    for target in
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
      has_xid := has_xid || coalesce(target.has_xid, '{}');
      now_ms := extract(epoch from clock_timestamp()) * 1000;
      state := coalesce(targets -> target.id, jsonb_build_object(
        'bytes', target.size_bytes, 'floor', greatest(target.size_bytes, target.limit_bytes), 'due', 0,
        'ended', 0, 'acted', false, 'closed', null));
      due_ms := (state -> 'due')::float8;
      if due_ms > now_ms then
        pause_ms := least(pause_ms, greatest(due_ms - now_ms, ${nearMs}));
        continue;
      end if;
      -- Readers cost nothing: a session that has no transaction id, and had none, has not grown anything.
      if target.has_xid is null and not target.has_ended and targets ? target.id
        and not exists (select from jsonb_array_elements(target.sessions) as s where (s -> 'pid')::integer = any (had_xid))
      then
        continue;
      end if;
      begin
        bytes := pg_database_size(target.datid);
      exception when others then
        raise info '%', jsonb_build_object('project', target.id, 'error', sqlerrm);
        bytes := null;
      end;
      if bytes is null then
        targets := targets || jsonb_build_object(target.id, state || jsonb_build_object('due', now_ms + ${maxPauseMs}));
        continue;
      end if;
      floor_bytes := greatest(target.limit_bytes, least((state -> 'floor')::bigint, bytes));
      excess := bytes - floor_bytes;
      if bytes <= target.limit_bytes then
        state := state || '{"ended": 0, "acted": false}';
      end if;
      if bytes <= greatest(target.limit_bytes, (state ->> 'reopen')::bigint) then
        state := state || '{"closed": null}';
      end if;
      is_growing := bytes > target.limit_bytes and bytes > (state -> 'bytes')::bigint;
      if is_growing or state ->> 'closed' is not null then
        -- The further over the limit, the stricter: at first only sessions with a transaction id whose text does not say
        -- that they delete; then every session that has run anything since the last turn. A statement that has ended has
        -- no transaction id any more, so only its text can be judged. A cancel takes a moment; a second strike in another
        -- statement means that the session continues. A session that logged in after the gate was closed came in before
        -- the closing took effect.
        select coalesce(array_agg(pid) filter (where not is_last), '{}'),
               coalesce(array_agg(pid) filter (where is_last), '{}')
        into to_cancel, to_end
        from (
          select pid, strike is not null or is_late or excess >= ${terminateBytes} as is_last
          from jsonb_to_recordset(target.sessions) as s (pid integer, came text, ran text, running boolean, xid boolean, text text)
            left join lateral (select strikes -> pid::text as strike) as found on strike ->> 'came' = came
            cross join lateral (
              select coalesce(came::timestamptz > (state ->> 'closed')::timestamptz, false) as is_late
            ) as gate
          where (is_late or is_growing and (
                   excess >= ${toleratedBytes}
                   or text !~* '${freeingPattern}' and (xid or pid = any (had_xid) or not running and text ~* '${growingPattern}')))
            and not (strike is not null and (strike ->> 'ended')::boolean and (strike -> 'at')::float8 > now_ms - ${patienceMs})
            and not (strike is not null and strike ->> 'ran' = ran and (strike -> 'at')::float8 > now_ms - ${patienceMs}
                     and excess < ${terminateBytes})
        ) as suspect;
        if cardinality(to_cancel) + cardinality(to_end) > 0 then
          tables := array(
            select distinct relation::bigint from pg_locks
            where pid = any (to_cancel || to_end) and locktype = 'relation' and granted and database = target.datid
              and mode not in ('AccessShareLock', 'RowShareLock'));
          perform pg_cancel_backend(pid) from unnest(to_cancel) as pid;
          perform pg_terminate_backend(pid) from unnest(to_end) as pid;
          state := state || jsonb_build_object('ended', (state -> 'ended')::integer + cardinality(to_end));
          is_too_far := excess >= ${toleratedBytes} or state ->> 'closed' is not null
            or excess >= ${terminateBytes} and (state -> 'ended')::integer >= ${maxTerminations};
          raise info '%', jsonb_build_object(
            'project', target.id, 'at', now_ms, 'bytes', bytes, 'limitBytes', target.limit_bytes,
            'floorBytes', floor_bytes, 'cancelled', to_cancel, 'ended', to_end, 'tables', tables,
            'isTooFar', is_too_far, 'isFirst', not (state -> 'acted')::boolean);
          state := state || '{"acted": true}';
          if is_too_far and state ->> 'closed' is null then
            state := state || jsonb_build_object('closed', clock_timestamp(), 'reopen', floor_bytes);
            has_closed := true;
          end if;
          strikes := strikes || (
            select jsonb_object_agg(pid, jsonb_build_object(
                     'came', came, 'ran', ran, 'at', now_ms, 'ended', pid = any (to_end)))
            from jsonb_to_recordset(target.sessions) as s (pid integer, came text, ran text)
            where pid = any (to_cancel || to_end));
        end if;
      end if;
      -- Measuring a database with very many files takes long: at most a third of the time is spent on it.
      due_ms := greatest(
        least((target.limit_bytes - bytes) / ${bytesPerMs}::float8, ${maxPauseMs}), ${nearMs},
        2 * (extract(epoch from clock_timestamp()) * 1000 - now_ms));
      pause_ms := least(pause_ms, due_ms);
      targets := targets || jsonb_build_object(target.id, state || jsonb_build_object(
        'bytes', bytes, 'floor', floor_bytes, 'limit', target.limit_bytes, 'due', now_ms + due_ms));
    end loop;
    if queue_long_at is not null then pause_ms := least(pause_ms, ${notifyLookMs}); end if;
    had_xid := has_xid;
    looked_at := began_at;
  end loop;
end`;
}

const isRunning = `session.state in ('active', 'fastpath function call')`;

/** Statements that may free space or end a transaction. */
export const freeingPattern = String.raw`^\s*(delete|truncate|drop|vacuum|analyze|rollback|abort|commit|end|begin|start|show|set|close)\y`;
const growingPattern = String.raw`^\s*(insert|update|copy|create|merge|alter|do|call|with|execute|refresh|select\s+lo_)`;
