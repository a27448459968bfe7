// Plain VACUUM: makes the space of dead rows usable again, and returns the empty end of a table to the disk. A refused INSERT
// leaves its pages behind, and only VACUUM removes them.

import type { ProjectLogin } from '../../servers/databases/login.ts';
import type { Server } from '../../servers/server.ts';
import { type MaintenanceSession, openMaintenanceSession } from './maintenance-session.ts';
import { askDespiteLocks, isWorthVacuum, sizeUnlessLocked } from './table-estimates.ts';

type Deps = { server: Server };

/** `isCatalog`: the project's role may not vacuum it. It is vacuumed with the service's role, as no project code runs there. */
type Found = { name: string; isCatalog: boolean };

const vacuum = 'vacuum (truncate true, index_cleanup auto, parallel 0, skip_locked true)';

/**
 * Vacuums these tables, or all tables of the project that are worth it. Skips tables that no longer exist, are locked, or are
 * not the project's, and those that do not fit into the time. Throws only if the database cannot be opened.
 */
export async function vacuumTables(
  { server }: Deps,
  login: ProjectLogin,
  tables: readonly number[] | 'all',
  { timeoutMs }: { timeoutMs: number },
): Promise<void> {
  if (tables.length === 0) return;
  const deadline = performance.now() + timeoutMs;
  const maintenanceSession = await openMaintenanceSession(server, login);
  try {
    const found = await findTables(maintenanceSession, tables);
    for (const { name } of found.filter(({ isCatalog }) => !isCatalog)) {
      const leftMs = deadline - performance.now();
      if (leftMs <= 0 || !maintenanceSession.isUsable) break;
      await maintenanceSession.ask(`${vacuum} ${name}`, [], leftMs).catch(() => {});
    }
    const catalogs = found.filter(({ isCatalog }) => isCatalog).map(({ name }) => name);
    if (catalogs.length > 0) await vacuumCatalogs({ server }, login, catalogs, deadline - performance.now());
  } finally {
    maintenanceSession.close();
  }
}

/** `names`: tables of PostgreSQL's own, quoted. */
async function vacuumCatalogs(
  { server }: Deps,
  login: ProjectLogin,
  names: readonly string[],
  timeoutMs: number,
): Promise<void> {
  if (timeoutMs <= 0) return;
  const deadline = performance.now() + timeoutMs;
  const maintenanceSession = await openMaintenanceSession(server, login, { asService: true });
  try {
    for (const name of names) {
      const leftMs = deadline - performance.now();
      if (leftMs > 0 && maintenanceSession.isUsable)
        await maintenanceSession.ask(`${vacuum} ${name}`, [], leftMs).catch(() => {});
    }
  } finally {
    maintenanceSession.close();
  }
}

/** Largest first. Names are quoted; a table that is renamed in between is skipped. */
async function findTables(
  maintenanceSession: MaintenanceSession,
  tables: readonly number[] | 'all',
): Promise<Found[]> {
  const wanted = tables === 'all' ? null : `{${tables.join(',')}}`;
  const rows = await askDespiteLocks(
    maintenanceSession,
    `select name, is_catalog from (
       select format('%I.%I', nspname, relname) as name, relnamespace = 'pg_catalog'::regnamespace as is_catalog,
              ${sizeUnlessLocked} as bytes,
              pg_stat_get_dead_tuples(pg_class.oid) as dead, pg_stat_get_live_tuples(pg_class.oid) as live
       from pg_class join pg_namespace on pg_namespace.oid = relnamespace
       where relkind in ('r', 'm') and relpersistence <> 't' and not relisshared
         and (pg_class.oid = any ($1::oid[])
              or $1 is null and (relnamespace <> 'pg_catalog'::regnamespace or pg_class.oid = 'pg_largeobject'::regclass))
         and (relnamespace = 'pg_catalog'::regnamespace or pg_has_role(relowner, 'usage'))
     ) as found
     where $1 is not null or ${isWorthVacuum}
     order by bytes desc nulls last`,
    [wanted],
  );
  return rows.map(([name, isCatalog]) => ({ name: name as string, isCatalog: isCatalog === 't' }));
}
