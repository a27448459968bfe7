// Finds tables with pages of rows that were never committed or no longer exist. Runs in sessions of the project's role.
import type { MaintenanceSession } from './maintenance-session.ts';
import { askDespiteLocks, sizeUnlessLocked } from './table-estimates.ts';

/** `name` is quoted. `bytes` null: another session holds an exclusive lock on the table. */
export type Dirty = { oid: string; name: string; bytes: number | null };

const tablesAtOnce = 20;

/** The table itself, and its TOAST table. */
const dirt = `
  select coalesce(sum(n_dead_tup), 0) as dead, sum(part.relpages) as pages,
         max(greatest(last_vacuum, last_autovacuum, last_analyze, last_autoanalyze)) as seen_at
  from pg_class as part left join pg_stat_all_tables as stats on stats.relid = part.oid
  where part.oid in (pg_class.oid, pg_class.reltoastrelid)`;

/**
 * Tables with dead rows, or with more pages than after their last VACUUM or ANALYZE. Dead rows are reported up to ten seconds
 * late: if a table was vacuumed or analyzed while the failed statement was still writing to it, its pages count as used, and
 * only the time of that VACUUM or ANALYZE reveals it.
 */
export function findDirty(own: MaintenanceSession): Promise<Dirty[]> {
  return find(
    own,
    `relkind in ('r', 'm') and relowner = current_user::regrole and relpersistence <> 't'`,
    `bytes is null or dead > 0 or bytes > pages * 8192::bigint + 64 * 1024
     or seen_at > clock_timestamp() - interval '15 seconds'`,
  );
}

/**
 * The catalog, large objects and the users: tables that the project's role may not vacuum. Unless space is needed, a few dead
 * rows do not matter: nearly every DDL statement leaves some.
 */
export async function findDirtyOfOurs(own: MaintenanceSession, isFull: boolean): Promise<Dirty[]> {
  const found = await find(
    own,
    `relkind = 'r' and not relisshared and relnamespace in ('pg_catalog'::regnamespace, 'auth'::regnamespace)`,
    `dead > ${isFull ? 0 : 50} or dead > 0 and bytes > indexes + pages * 8192::bigint + 64 * 1024
     or oid = 'pg_largeobject'::regclass and bytes > indexes + pages * 8192::bigint + 64 * 1024`,
  );
  return found.filter(({ bytes }) => bytes !== null);
}

async function find(own: MaintenanceSession, ofWhom: string, isDirty: string): Promise<Dirty[]> {
  const rows = await askDespiteLocks(
    own,
    `select oid, name, bytes from (
       select pg_class.oid, format('%I.%I', nspname, pg_class.relname) as name, ${sizeUnlessLocked} as bytes,
              pg_indexes_size(pg_class.oid) as indexes, dead, pages, seen_at
       from pg_class
       join pg_namespace on pg_namespace.oid = relnamespace
       cross join lateral (${dirt}) as dirt
       where ${ofWhom}
     ) as found
     where ${isDirty}
     order by dead desc, bytes - pages * 8192::bigint desc nulls last
     limit ${tablesAtOnce}`,
    [],
  );
  return rows.map(([oid, name, bytes]) => ({
    oid: oid ?? '',
    name: name ?? '',
    bytes: bytes === null || bytes === undefined ? null : Number(bytes),
  }));
}

/** VACUUM skips pinned pages, even those pinned only to be written to disk; a pinned last page prevents truncation. */
export async function hasDead(own: MaintenanceSession, tables: readonly Dirty[]): Promise<boolean> {
  const rows = await own.ask(
    `select from pg_class cross join lateral (${dirt}) as dirt where pg_class.oid = any ($1::oid[]) and dead > 0 limit 1`,
    [oidsOf(tables)],
  );
  return rows.length > 0;
}

/** The current size of a table (null: another session holds an exclusive lock on it) and its number of rows. */
export type Present = Dirty & { rows: number };

/** Omits tables that no longer exist. */
export async function measureTables(
  maintenanceSession: MaintenanceSession,
  tables: readonly Dirty[],
): Promise<Present[]> {
  const rows = await askDespiteLocks(
    maintenanceSession,
    `select oid, ${sizeUnlessLocked}, pg_stat_get_live_tuples(oid) from pg_class where oid = any ($1::oid[])`,
    [oidsOf(tables)],
  );
  const found = new Map(rows.map(([oid, bytes, live]) => [oid, { bytes, live }]));
  return tables.flatMap((table) => {
    const now = found.get(table.oid);
    if (!now) return [];
    return { ...table, bytes: now.bytes == null ? null : Number(now.bytes), rows: Number(now.live) };
  });
}

/** Index entries of rows that were never committed leave empty pages. Finds tables whose indexes are larger than the table. */
export async function findSwollenIndexes(
  maintenanceSession: MaintenanceSession,
  tables: readonly Dirty[],
): Promise<Dirty[]> {
  const rows = await askDespiteLocks(
    maintenanceSession,
    `select oid from pg_class where oid = any ($1::oid[]) and ${sizeUnlessLocked} is not null
       and pg_indexes_size(oid) > pg_table_size(oid) + 64 * 1024`,
    [oidsOf(tables)],
  );
  const swollen = new Set(rows.map(([oid]) => oid));
  return tables.filter(({ oid }) => swollen.has(oid));
}

function oidsOf(tables: readonly Dirty[]): string {
  return `{${tables.map(({ oid }) => oid).join(',')}}`;
}
