// A project's storage by table, and the history of its size. The query runs in the project's database as the role that owns
// its users: the project can neither change that role nor use up its connections, the search path resolves none of the
// project's names, and none of its code runs.

import type { TableUsage, Usage, UsageQuery, UsageResponse } from '@rowhouse/api';
import type { Control } from '../control/control.ts';
import { errors, RowhouseError } from '../errors/errors.ts';
import { slotsOnServers } from '../lib/account-slots.ts';
import { toMb } from '../lib/bytes.ts';
import { isState, openDatabase } from '../postgres/admin/database.ts';
import { type Sql, sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';
import { loginOf, type ProjectLogin } from '../servers/databases/login.ts';
import { restoreLogin } from '../servers/databases/roles.ts';
import type { Server, Servers } from '../servers/server.ts';
import { isFull, isFullRow } from './reserve.ts';

type Deps = { control: Control; usageLooks: UsageLooks; now: () => number };

const defaultPoints = 200;

/** `tables`: the tables that the caller may see, named as in keys. null: all. */
export async function getUsage(
  { control, usageLooks, now }: Deps,
  project: Place & { slug: string },
  tables: readonly string[] | null,
  { since, points = defaultPoints }: UsageQuery,
): Promise<{ usage: Omit<Usage, 'failed_restore_drill_at'>; history: UsageResponse['history'] }> {
  const sinceMs = since === undefined ? 0 : Date.parse(since);
  if (Number.isNaN(sinceMs))
    throw errors.invalidRequest([{ path: 'since', problem: 'must be an existing date and time' }]);
  const look = await usageLooks.look(project, tables);
  const measuredAt = new Date(now()).toISOString();
  const [row] = await control.query<{ limitMb: number; emptyBytes: number }>(sql`
    select limit_mb as "limitMb", empty_bytes::float8 as "emptyBytes" from projects where id = ${project.id}`);
  if (!row) throw errors.projectNotFound(project.slug);
  const storedBytes = Math.max(0, look.bytes - row.emptyBytes);
  return {
    usage: {
      limit_mb: row.limitMb,
      size_mb: toMb(storedBytes),
      headroom_mb: Math.max(0, toMb(row.limitMb * 1024 * 1024 - storedBytes)),
      status: isFull(storedBytes, row.limitMb) ? 'full' : 'ready',
      measured_at: measuredAt,
      tables: look.tables,
      users_bytes: look.usersBytes,
      large_objects_bytes: look.largeObjectsBytes,
      other_bytes: Math.max(0, storedBytes - look.tablesBytes - look.usersBytes - look.largeObjectsBytes),
      table_count: look.tableCount,
      tables_truncated: look.tableCount > look.tables.length,
    },
    history: await readHistory(control, project.id, sinceMs, points),
  };
}

/** The current contents of a project's database. */
type Look = {
  bytes: number;
  usersBytes: number;
  largeObjectsBytes: number;
  tablesBytes: number;
  tableCount: number;
  tables: TableUsage[];
};

type Place = { id: string; account_id: string; server_id: number };
export type UsageLooks = {
  look(project: Place, tables: readonly string[] | null): Promise<Look>;
  stop(): Promise<void>;
};

/** On a server. With 20,000 tables a query takes 3 s of CPU time, and 260 MB of memory meanwhile. */
const limits = { all: 3, kept: 1, waiting: 60, waitingPerAccount: 30 };
const maxPerProject = 2;

export function openUsageLooks(servers: Servers): UsageLooks {
  /** By project, and by the tables that the caller may see. */
  const running = new Map<string, Map<string, Promise<Look>>>();
  const slotsOn = slotsOnServers('requests for the usage', limits);

  return {
    look: async ({ id: projectId, account_id: accountId, server_id: serverId }, tables) => {
      const mine = running.get(projectId) ?? new Map<string, Promise<Look>>();
      const visible = JSON.stringify(tables);
      const found = mine.get(visible);
      if (found) return found;
      if (mine.size >= maxPerProject)
        throw errors.overloaded('Too many requests for the usage of the project are running.', 2);
      const lookNow = async () => lookInside(servers.of(serverId), projectId, tables);
      const look = slotsOn(serverId)
        .take(accountId, lookNow)
        .finally(() => {
          mine.delete(visible);
          if (mine.size === 0) running.delete(projectId);
        });
      mine.set(visible, look);
      running.set(projectId, mine);
      return look;
    },
    stop: async () => {
      await Promise.allSettled([...running.values()].flatMap((looks) => [...looks.values()]));
    },
  };
}

const attempts = 3;
const timeoutMs = 25_000;

async function lookInside(server: Server, id: string, tables: readonly string[] | null): Promise<Look> {
  const login: ProjectLogin = {
    id,
    serverId: server.id,
    passwordVersion: 1,
    accountId: null,
    loginAs: 'auth',
  };
  for (let attempt = 1; ; attempt++) {
    // Names are resolved in PostgreSQL's own schema only.
    const database = openDatabase(loginOf(server, login), { max: 1, searchPath: 'pg_catalog,pg_temp' });
    try {
      return await database.transaction(async (inside) => {
        await inside.query(sql`select set_config('statement_timeout', ${String(timeoutMs)}, true)`);
        const [look] = await inside.query<Look>(everything(tables));
        if (!look) throw new Error('A look without an answer.');
        return look;
      });
    } catch (error) {
      if (isState(error, sqlstate.queryCanceled)) throw errors.usageTimeout(timeoutMs);
      const isLocked = isState(error, sqlstate.lockNotAvailable);
      if (attempt === attempts) throw isLocked ? errors.usageLocked(error) : error;
      // A table was locked after the query had determined the locked ones: the next attempt sees its lock.
      if (!isLocked && !isRefused(error)) throw error;
      if (!isLocked) await restoreLogin(server, login);
    } finally {
      await database.end();
    }
  }
}

function isRefused(error: unknown): boolean {
  const cause = error instanceof RowhouseError ? (error.cause as { code?: string; severity?: string }) : null;
  return cause?.severity === 'FATAL' && cause.code === sqlstate.invalidPassword;
}

const mostTables = 1_000;

/**
 * One statement, so that all values are consistent. Measuring would wait for an exclusive lock, so a locked table is reported
 * with its size at the last VACUUM or ANALYZE. A table that is dropped in the meantime has no size and is omitted.
 */
function everything(tables: readonly string[] | null): Sql {
  return sql`
    with locked as materialized (
      select relation as oid from pg_locks
      where locktype = 'relation' and mode = 'AccessExclusiveLock'
        and database = (select oid from pg_database where datname = current_database())
    ),
    shut as materialized (
      select oid from locked
      union
      select indrelid from pg_index join locked on locked.oid = indexrelid
    ),
    relation as materialized (
      select class.oid, nspname, relname, relkind, relispartition, reltuples, reltoastrelid,
             class.oid in (select oid from shut) or reltoastrelid in (select oid from shut) as is_shut
      from pg_class as class join pg_namespace as namespace on namespace.oid = relnamespace
      where relkind in ('r', 'p', 'm')
        and nspname not in ('pg_catalog', 'information_schema', 'pg_toast', 'rowhouse')
        and nspname !~ '^pg_(temp|toast_temp)_'
    ),
    measured as materialized (
      select case when relispartition then coalesce(pg_partition_root(oid)::oid, oid) else oid end as root,
        nspname = 'auth' as is_ours,
        case when relkind <> 'p' then reltuples end as tuples,
        case when relkind = 'p' then 0
             when is_shut then ${tablePages(sql`relation.oid`)} * block
             else pg_relation_size(oid, 'main') + pg_relation_size(oid, 'fsm') + pg_relation_size(oid, 'vm')
                  + pg_relation_size(oid, 'init') end as heap,
        case when relkind = 'p' then 0
             when is_shut then ${indexPages(sql`relation.oid`)} * block
             else coalesce(pg_indexes_size(oid), 0) end as indexes,
        case when reltoastrelid = 0 then 0
             when is_shut then (${tablePages(sql`relation.reltoastrelid`)} + ${indexPages(sql`relation.reltoastrelid`)}) * block
             else coalesce(pg_total_relation_size(reltoastrelid), 0) end as toast
      from relation, (select current_setting('block_size')::int8) as setting (block)
    ),
    listed as materialized (
      select nspname, relname, relkind, sum(heap) as heap, sum(indexes) as indexes, sum(toast) as toast,
             sum(heap + indexes + toast) as total,
             case when bool_and(tuples >= 0) then round(sum(tuples::float8))::int8 end as tuples
      from measured join relation on relation.oid = root
      where heap is not null and not is_ours
        and (${tables}::text[] is null or concat(nspname, '.', relname) = any (${tables}::text[])
             or nspname = 'public' and relname::text = any (${tables}::text[]))
      group by relation.oid, nspname, relname, relkind
    )
    select pg_database_size(current_database())::float8 as "bytes",
      (select coalesce(sum(heap + indexes + toast), 0)::float8 from measured where is_ours) as "usersBytes",
      (pg_total_relation_size('pg_largeobject') + pg_total_relation_size('pg_largeobject_metadata'))::float8
        as "largeObjectsBytes",
      (select coalesce(sum(total), 0)::float8 from listed) as "tablesBytes",
      (select count(*)::int from listed) as "tableCount",
      (select coalesce(json_agg(json_build_object(
         'schema', nspname, 'name', relname,
         'kind', case relkind when 'r' then 'table' when 'p' then 'partitioned' else 'materialized_view' end,
         'total_bytes', total, 'heap_bytes', heap, 'index_bytes', indexes, 'toast_bytes', toast,
         'row_estimate', tuples) order by total desc, nspname, relname), '[]')
       from (select * from listed order by total desc, nspname, relname limit ${mostTables}) as largest) as "tables"`;
}

function tablePages(table: Sql): Sql {
  return sql`(select coalesce(sum(class.relpages), 0)::int8 from pg_class as class where class.oid = ${table})`;
}

function indexPages(table: Sql): Sql {
  return sql`(
    select coalesce(sum(index.relpages), 0)::int8
    from pg_index join pg_class as index on index.oid = indexrelid where indrelid = ${table})`;
}

type Point = { at: Date; bytes: number };

async function readHistory(
  control: Control,
  projectId: string,
  sinceMs: number,
  points: number,
): Promise<UsageResponse['history']> {
  const rows = await control.query<Point>(sql`
    select at, bytes
    from (
      select at, size_bytes::float8 as bytes, row_number() over (order by at) - 1 as place, count(*) over () - 1 as last
      from usage_points where project_id = ${projectId} and at >= to_timestamp(${sinceMs}::float8 / 1000)
    ) as point
    where place = last
       or ${points}::int > last
       or ${points}::int > 1
          and (place = 0 or place * (${points}::int - 1) / nullif(last, 0)
                            > (place - 1) * (${points}::int - 1) / nullif(last, 0))
    order by at`);
  return rows.map(({ at, bytes }) => ({ at: at.toISOString(), size_mb: toMb(bytes) }));
}

const batchSize = 500;

/**
 * Records the sizes of projects that have changed since their last point, at most every five minutes. The creation of a
 * project and a change of its status full are recorded at once. Each new point determines how long the previous one is kept:
 * the last of a day, of an hour and of five minutes stay longer than others. Returns the number of points added.
 */
export async function recordUsage({ control, now }: Pick<Deps, 'control' | 'now'>): Promise<number> {
  const time = sql`to_timestamp(${now()}::float8 / 1000)`;
  const rows = await control.query(sql`
    with due as (
      select id, created_at, noted_at as previous, size_bytes - empty_bytes as bytes,
             ${isFullRow} as is_full
      from projects
      -- This must match the index projects_to_note.
      where deleted_at is null
        and (noted_at is null or size_bytes - empty_bytes <> noted_bytes
             or ${isFullRow} <> noted_full)
        and (noted_at is null or noted_at <= ${time} - interval '5 minutes'
             or ${isFullRow} <> noted_full)
      order by noted_at nulls first limit ${batchSize}
      for no key update skip locked
    ),
    -- A project starts empty. A clock that is set back must not put the points out of order.
    point as (
      select id, created_at, previous, case when previous is null then created_at else greatest(${time}, previous + interval '1 ms') end as at,
             case when previous is null then 0 else bytes end as bytes, previous is not null and is_full as is_full
      from due
    ),
    added as (
      insert into usage_points (project_id, at, size_bytes) select id, at, greatest(0, bytes) from point
    ),
    superseded as (
      update usage_points
      set expires_at = previous + case
        when previous = created_at or ${isApart(sql`interval '1 day'`)} then interval '730 days'
        when ${isApart(sql`interval '1 hour'`)} then interval '30 days'
        when ${isApart(sql`interval '5 minutes'`)} then interval '1 day'
        else interval '1 hour' end
      from point where usage_points.project_id = point.id and usage_points.at = previous
    )
    update projects set noted_at = at, noted_bytes = bytes, noted_full = is_full
    from point where projects.id = point.id
    returning projects.id`);
  return rows.length;
}

/** Whether the two points lie in different spans of this length. */
function isApart(span: Sql): Sql {
  return sql`date_bin(${span}, previous, 'epoch') <> date_bin(${span}, point.at, 'epoch')`;
}

/** Deletes expired points, a limited number per call. */
export async function forgetOldUsage({ control, now }: Pick<Deps, 'control' | 'now'>): Promise<number> {
  const rows = await control.query(sql`
    delete from usage_points
    where (project_id, at) in (
      select project_id, at from usage_points
      where expires_at <= to_timestamp(${now()}::float8 / 1000)
      order by expires_at limit ${10 * batchSize})
    returning 1`);
  return rows.length;
}

export type RefusalReason = 'project_full' | 'server_full';

/** Counts the writes that this process has refused because a project or the disk was full. */
export function countRefusals(): {
  count(reason: RefusalReason): void;
  counts(): Record<RefusalReason, number>;
} {
  const counts = { project_full: 0, server_full: 0 };
  return {
    count: (reason) => {
      counts[reason]++;
    },
    counts: () => counts,
  };
}
