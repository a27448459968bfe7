// The work of a compaction. Every table is vacuumed; one that holds much dead space is written anew (VACUUM FULL), if
// there is room for the copy. The project's code in indexes runs as the project's own role, and within bounds: so long
// for a table, so much growth for a copy, whatever the statistics, which the project can forge, had promised.
import type { Control } from '../control/control.ts';
import type { DiskWatch } from '../engine/disk.ts';
import { type MaintenanceSession, openMaintenanceSession } from '../engine/maintenance-session.ts';
import { databaseOf, type ProjectLogin } from '../engine/provision.ts';
import type { Server } from '../engine/servers.ts';
import { AskError } from '../postgres/ask.ts';
import { sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';
import { estimateTable, listCatalogs, listTables, type Table } from './table-estimates.ts';

export type Progress = {
  total: number;
  done: number;
  current: string | null;
  bytes: number;
  skipped: { table: string; reason: string }[];
  skippedCount: number;
};

type Deps = { control: Control; server: Server; disk: DiskWatch };
type Work = Deps & {
  login: ProjectLogin;
  progress: Progress;
  signal: AbortSignal;
  startBytes: number;
  times: typeof usualTimes;
};

const mb = 1024 * 1024;
/** For one table. While it is written anew nobody else can use it: slower than any disk is the project's own code. */
const usualTimes = {
  vacuumMs: 5 * 60_000,
  analyzeMs: 60_000,
  rewriteMs: (bytes: number) => Math.min(30_000 + bytes / ((5 * mb) / 1000), 10 * 60_000),
};
/** Worth a copy and the time it is locked. */
const [leastGainBytes, leastGain] = [mb, 0.1];
/** How far a copy may take the project over its limit, or over what it has if that is more; the rest is for the delay. */
const overLimitBytes = 24 * mb;
const guardMs = 20;
/** Sessions that project code made us throw away. */
const maxReopened = 20;
const maxKeptSkipped = 100;

/** Comes to its end early when `signal` says so. Throws only if nothing can be done at all. */
export async function compactTables(
  deps: Deps,
  login: ProjectLogin,
  progress: Progress,
  signal: AbortSignal,
  times = usualTimes,
): Promise<void> {
  const work: Work = { ...deps, login, progress, signal, times, startBytes: progress.bytes };
  const parts = [
    { list: listTables, open: () => openMaintenanceSession(deps.server, login, { signal }) },
    {
      list: listTables,
      open: () => openMaintenanceSession(deps.server, { ...login, loginAs: 'auth' }, { signal }),
    },
    {
      list: listCatalogs,
      open: () => openMaintenanceSession(deps.server, login, { signal, asService: true }),
    },
  ] as const;
  const lists: Table[][] = [];
  for (const { list, open } of parts) {
    if (signal.aborted) return;
    const maintenanceSession = await open();
    try {
      lists.push(await list(maintenanceSession));
    } finally {
      maintenanceSession.close();
    }
  }
  progress.total = lists.reduce((sum, tables) => sum + tables.length, 0);
  for (const [index, { open }] of parts.entries()) await compactEach(work, lists[index] ?? [], open);
}

async function compactEach(
  work: Work,
  tables: readonly Table[],
  open: () => Promise<MaintenanceSession>,
): Promise<void> {
  const { progress, signal } = work;
  let maintenanceSession: MaintenanceSession | null = null;
  try {
    for (let at = 0, opened = 0; at < tables.length && !signal.aborted; at++) {
      const table = tables[at] as Table;
      if (!maintenanceSession?.isUsable) {
        if (opened++ > maxReopened) throw new Error('Too many sessions were lost.');
        maintenanceSession = await open();
      }
      progress.current = table.name;
      const reason = await compactOne(work, maintenanceSession, table).catch((error) =>
        reasonOf(error, signal),
      );
      if (reason !== null) skip(progress, table.name, reason);
      progress.done++;
    }
  } finally {
    progress.current = null;
    maintenanceSession?.close();
  }
}

/** null: all is done that is worth it. Else why not. */
async function compactOne(
  work: Work,
  maintenanceSession: MaintenanceSession,
  { oid, name, bytes }: Table,
): Promise<string | null> {
  if (bytes === null) return 'locked';
  await maintenanceSession.ask(
    `vacuum (truncate true, index_cleanup auto, parallel 0) ${name}`,
    [],
    work.times.vacuumMs,
  );
  if (bytes < leastGainBytes) return null;
  // Without fresh statistics there is no telling how much is dead. The project's functions run here: they may fail.
  await maintenanceSession.ask(`analyze ${name}`, [], work.times.analyzeMs).catch((error) => {
    if (!(error instanceof AskError)) throw error;
  });
  const found = await estimateTable(maintenanceSession, oid);
  if (!found) return 'gone';
  const gain = found.bytes - found.liveBytes;
  if (gain < leastGainBytes || gain < found.bytes * leastGain) return null;
  return rewrite(work, maintenanceSession, name, found);
}

async function rewrite(
  work: Work,
  maintenanceSession: MaintenanceSession,
  name: string,
  { bytes, liveBytes }: { bytes: number; liveBytes: number },
): Promise<string | null> {
  const ceiling = await ceilingOf(work);
  if (ceiling === null) return 'gone';
  const size = await sizeOf(work);
  if (size + liveBytes > ceiling) return 'no_room_in_limit';
  await work.disk.look();
  // The copy is written twice: into its file and into the log of changes.
  if (!hasRoom(work.disk, liveBytes * 2)) return 'no_room_on_disk';
  const stop = new AbortController();
  let reason: string | null = null;
  const guarding = guard(work, ceiling, stop.signal, (found) => {
    reason = found;
    stop.abort();
  });
  try {
    await maintenanceSession.ask(
      `vacuum (full true, parallel 0) ${name}`,
      [],
      work.times.rewriteMs(bytes),
      stop.signal,
    );
    return null;
  } catch (error) {
    return reason ?? reasonOf(error, work.signal);
  } finally {
    stop.abort();
    await guarding;
    work.progress.bytes = await sizeOf(work).catch(() => work.progress.bytes);
  }
}

/** While the copy is made: it can be larger than was thought. */
async function guard(
  work: Work,
  ceiling: number,
  ended: AbortSignal,
  onTooMuch: (reason: string) => void,
): Promise<void> {
  while (!ended.aborted) {
    const size = await sizeOf(work).catch(() => 0);
    if (ended.aborted) return;
    if (size > ceiling) return onTooMuch('no_room_in_limit');
    if (work.disk.isLow()) return onTooMuch('no_room_on_disk');
    await new Promise((resolve) => setTimeout(resolve, guardMs));
  }
}

/** How large the database may become for a moment. Read again for each table: the limit can change meanwhile. */
async function ceilingOf({ control, login, startBytes }: Work): Promise<number | null> {
  const [row] = await control.query<{ bytes: number }>(sql`
    select (empty_bytes + limit_mb * 1048576::bigint)::float8 as bytes
    from projects where id = ${login.id} and deleted_at is null`);
  return row ? Math.max(row.bytes, startBytes) + overLimitBytes : null;
}

async function sizeOf({ server, login }: Work): Promise<number> {
  const [row] = await server.maintenance.query<{ bytes: number | null }>(
    sql`select pg_database_size(oid)::float8 as bytes from pg_database where datname = ${databaseOf(login.id)}`,
  );
  return row?.bytes ?? 0;
}

function hasRoom(disk: DiskWatch, bytes: number): boolean {
  const facts = disk.facts();
  return !disk.isLow() && (facts === null || facts.freeBytes - facts.reserveBytes > bytes);
}

function reasonOf(error: unknown, signal: AbortSignal): string | null {
  // Told once, for the whole.
  if (signal.aborted) return null;
  if (!(error instanceof AskError)) return 'too_slow';
  switch (error.sqlstate) {
    case sqlstate.lockNotAvailable:
      return 'locked';
    case sqlstate.undefinedTable:
    case sqlstate.undefinedSchema:
      return 'gone';
    case sqlstate.queryCanceled:
      return 'too_slow';
    case sqlstate.diskFull:
      return 'no_room_on_disk';
    default:
      return error.message.slice(0, 200);
  }
}

function skip(progress: Progress, table: string, reason: string): void {
  progress.skippedCount++;
  if (progress.skipped.length < maxKeptSkipped) progress.skipped.push({ table, reason });
}
