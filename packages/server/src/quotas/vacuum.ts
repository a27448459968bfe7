// Plain VACUUM: makes the room of dead rows usable again, and gives the empty end of a table back to the disk. A refused
// INSERT leaves its pages behind, and only this takes them away.
import { type MaintenanceSession, openMaintenanceSession } from '../engine/maintenance-session.ts';
import type { ProjectLogin } from '../engine/provision.ts';
import type { Server } from '../engine/servers.ts';
import { askDespiteLocks, isWorthVacuum, sizeUnlessLocked } from './table-estimates.ts';

type Deps = { server: Server };

/** What the project's role may not touch, and is vacuumed with our rights: no code of the project's runs there. */
type Found = { name: string; isCatalog: boolean };

const vacuum = 'vacuum (truncate true, index_cleanup auto, parallel 0, skip_locked true)';

/**
 * Vacuums these tables, or all of the project's in which there is something to gain. A table that is gone, locked or not the project's is passed over;
 * what is not done within the time is left. Throws only if the database cannot be entered.
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

/** `names` are PostgreSQL's own tables, quoted. */
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

/** Large ones first. Names come back quoted; whoever is renamed in between is passed over. */
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
