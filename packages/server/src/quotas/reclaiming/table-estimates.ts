// Lists the tables to compact, and estimates the size of each without its dead space. Runs in sessions whose search_path is
// PostgreSQL's own schema.

import { sqlstate } from '../../postgres/sqlstate.ts';
import { AskError, type TextRow } from '../../postgres/wire/ask.ts';
import type { MaintenanceSession } from './maintenance-session.ts';

/** `name` is quoted. `bytes` null: another session holds an exclusive lock on the table. */
export type Table = { oid: string; name: string; bytes: number | null };

const listMs = 120_000;

/**
 * For a row with `bytes`, `live` and `dead` rows. VACUUM adds maps of 32 kB and more to a table and its indexes: with 20,000
 * tables of one row each, it grew a project from 550 MB to 1,180 MB.
 */
export const isWorthVacuum = `(bytes >= 1048576 or bytes * (dead / greatest(live + dead, 1)::float8) >= 65536)`;

/** The tables that the session's role may vacuum, most waste first. Partitions are listed; partitioned tables are empty. */
export function listTables(maintenanceSession: MaintenanceSession): Promise<Table[]> {
  return list(
    maintenanceSession,
    `relnamespace <> 'pg_catalog'::regnamespace and relpersistence <> 't' and pg_has_role(relowner, 'usage')`,
  );
}

/** PostgreSQL's own tables in this database that have grown: large objects, and the catalog after many changes. */
export function listCatalogs(maintenanceSession: MaintenanceSession): Promise<Table[]> {
  return list(maintenanceSession, `relnamespace = 'pg_catalog'::regnamespace and not relisshared`);
}

async function list(maintenanceSession: MaintenanceSession, condition: string): Promise<Table[]> {
  const rows = await askDespiteLocks(
    maintenanceSession,
    `select oid, name, bytes from (
       select pg_class.oid, format('%I.%I', nspname, relname) as name, ${sizeUnlessLocked} as bytes,
              pg_stat_get_dead_tuples(pg_class.oid) as dead, pg_stat_get_live_tuples(pg_class.oid) as live
       from pg_class join pg_namespace on pg_namespace.oid = relnamespace
       where relkind in ('r', 'm') and ${condition}
     ) as found
     where bytes is null or ${isWorthVacuum}
     order by bytes * (dead / greatest(live + dead, 1)::float8) desc nulls last, bytes desc`,
    [],
  );
  return rows.map(([oid, name, bytes]) => ({
    oid: oid ?? '',
    name: name ?? '',
    bytes: bytes === null || bytes === undefined ? null : Number(bytes),
  }));
}

/** For a row of pg_class. Measuring locks the table: null instead of waiting for another session's exclusive lock. */
export const sizeUnlessLocked = `
  case when pg_class.oid in (
    select coalesce(indrelid, toasted.oid, relation) from pg_locks
    left join pg_index on indexrelid = relation left join pg_class as toasted on toasted.reltoastrelid = relation
    where locktype = 'relation' and mode = 'AccessExclusiveLock'
      and database = (select oid from pg_database where datname = current_database())
  ) then null else coalesce(pg_total_relation_size(pg_class.oid), 0) end`;

/** Repeats a query that failed because another session took a lock after the check for locks. */
export async function askDespiteLocks(
  maintenanceSession: MaintenanceSession,
  text: string,
  parameters: (string | null)[],
): Promise<TextRow[]> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await maintenanceSession.ask(text, parameters, listMs);
    } catch (error) {
      const isLocked = error instanceof AskError && error.sqlstate === sqlstate.lockNotAvailable;
      if (!isLocked || attempt === 5) throw error;
    }
  }
}

/**
 * For a table that was just vacuumed and analyzed. Rows are estimated by their average width plus PostgreSQL's overhead, TOAST
 * chunks as if all were full, B-trees by the width of their columns. What cannot be estimated counts with its current size, so
 * the gain is underestimated rather than overestimated. null: the table no longer exists.
 */
export async function estimateTable(
  maintenanceSession: MaintenanceSession,
  oid: string,
): Promise<{ bytes: number; liveBytes: number } | null> {
  const [row] = await maintenanceSession.ask(
    `with main as (
       select pg_class.oid, nspname, relname, reltuples, reltoastrelid, pg_relation_size(pg_class.oid) as bytes,
              coalesce((select option_value::float8 from pg_options_to_table(reloptions)
                        where option_name = 'fillfactor'), 100) / 100 as fill
       from pg_class join pg_namespace on pg_namespace.oid = relnamespace where pg_class.oid = $1::oid
     ), widths as (
       select attnum, coalesce(max((1 - null_frac) * avg_width), 0) as width, count(avg_width) > 0 as known
       from main join pg_attribute on attrelid = main.oid and attnum > 0 and not attisdropped
       left join pg_stats on pg_stats.schemaname = main.nspname and pg_stats.tablename = main.relname
         and pg_stats.attname = pg_attribute.attname and not inherited
       group by attnum
     ), heap as (
       select main.bytes, case when reltuples < 0 or reltuples > 0 and not coalesce((select bool_and(known) from widths), true)
           then main.bytes
           else reltuples * (28 + 8 * ceil(coalesce((select sum(width) from widths), 0) / 8)) / (0.98 * fill) end as live
       from main
     ), toast as (
       select pg_total_relation_size(toast.oid) as bytes,
              case when toast.reltuples < 0 then pg_total_relation_size(toast.oid) else toast.reltuples * 2100 end as live
       from main join pg_class as toast on toast.oid = main.reltoastrelid
     ), indexes as (
       select pg_relation_size(indexrelid) as bytes,
              case when amname <> 'btree' or 0 = any (indkey::int2[]) or index.reltuples < 0
                then pg_relation_size(indexrelid)
                else 16384 + index.reltuples * (20 + 8 * ceil((
                  select coalesce(sum(width), 0) from widths where attnum = any (indkey::int2[])) / 8)) / 0.88 end as live
       from main join pg_index on indrelid = main.oid
       join pg_class as index on index.oid = indexrelid join pg_am on pg_am.oid = index.relam
     )
     select sum(bytes), sum(least(bytes, live)) from (
       select bytes, live from heap union all select bytes, live from toast union all select bytes, live from indexes
     ) as parts`,
    [oid],
  );
  const [bytes, live] = row ?? [];
  return bytes == null ? null : { bytes: Number(bytes), liveBytes: Number(live) };
}
