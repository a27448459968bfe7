// The work of a compaction. Every table is vacuumed; a table with much dead space is rewritten (VACUUM FULL) if there is
// space for the copy. The project's code in indexes runs as the project's own role, with limits on the time per table and
// the growth per copy: the project can forge the statistics from which the size of a copy is estimated.

import type { Control } from '../../control/control.ts';
import { mb } from '../../lib/bytes.ts';
import { sql } from '../../postgres/sql.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { AskError } from '../../postgres/wire/ask.ts';
import type { ProjectLogin } from '../../servers/databases/login.ts';
import { databaseOf } from '../../servers/databases/names.ts';
import type { DiskWatch } from '../../servers/embedded/disk.ts';
import type { Server } from '../../servers/server.ts';
import { type MaintenanceSession, openMaintenanceSession } from './maintenance-session.ts';
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
type Run = Deps & {
  login: ProjectLogin;
  progress: Progress;
  signal: AbortSignal;
  startBytes: number;
  times: typeof usualTimes;
};

/** Per table: no other session can use it during a rewrite. If that takes longer, the cause is project code, not the disk. */
const usualTimes = {
  vacuumMs: 5 * 60_000,
  analyzeMs: 60_000,
  rewriteMs: (bytes: number) => Math.min(30_000 + bytes / ((5 * mb) / 1000), 10 * 60_000),
};
/** The gain that justifies a copy and the lock. */
const [leastGainBytes, leastGain] = [mb, 0.1];
/**
 * How far a copy may exceed the project's limit, or its size at the start if that is larger. The rest of the 32 MB that
 * docs/limits.md promises is for what is written before the guard reacts.
 */
const overLimitBytes = 24 * mb;
const guardMs = 20;
/** Sessions that became unusable because of project code. */
const maxReopened = 20;
const maxKeptSkipped = 100;

/** Ends early when `signal` is aborted. Throws only if no table can be processed. */
export async function compactTables(
  deps: Deps,
  login: ProjectLogin,
  progress: Progress,
  signal: AbortSignal,
  times = usualTimes,
): Promise<void> {
  const run: Run = { ...deps, login, progress, signal, times, startBytes: progress.bytes };
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
  for (const [index, { open }] of parts.entries()) await compactEach(run, lists[index] ?? [], open);
}

async function compactEach(
  run: Run,
  tables: readonly Table[],
  open: () => Promise<MaintenanceSession>,
): Promise<void> {
  const { progress, signal } = run;
  let maintenanceSession: MaintenanceSession | null = null;
  try {
    for (let at = 0, opened = 0; at < tables.length && !signal.aborted; at++) {
      const table = tables[at] as Table;
      if (!maintenanceSession?.isUsable) {
        if (opened++ > maxReopened) throw new Error('Too many sessions were lost.');
        maintenanceSession = await open();
      }
      progress.current = table.name;
      const reason = await compactOne(run, maintenanceSession, table).catch((error) =>
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

/** null: done, or not worth it. Otherwise the reason why the table was skipped. */
async function compactOne(
  run: Run,
  maintenanceSession: MaintenanceSession,
  { oid, name, bytes }: Table,
): Promise<string | null> {
  if (bytes === null) return 'locked';
  await maintenanceSession.ask(
    `vacuum (truncate true, index_cleanup auto, parallel 0) ${name}`,
    [],
    run.times.vacuumMs,
  );
  if (bytes < leastGainBytes) return null;
  // The estimate of dead space needs fresh statistics. ANALYZE runs functions of the project, which may fail.
  await maintenanceSession.ask(`analyze ${name}`, [], run.times.analyzeMs).catch((error) => {
    if (!(error instanceof AskError)) throw error;
  });
  const found = await estimateTable(maintenanceSession, oid);
  if (!found) return 'gone';
  const gain = found.bytes - found.liveBytes;
  if (gain < leastGainBytes || gain < found.bytes * leastGain) return null;
  return rewrite(run, maintenanceSession, name, found);
}

async function rewrite(
  run: Run,
  maintenanceSession: MaintenanceSession,
  name: string,
  { bytes, liveBytes }: { bytes: number; liveBytes: number },
): Promise<string | null> {
  const ceiling = await ceilingOf(run);
  if (ceiling === null) return 'gone';
  const size = await sizeOf(run);
  if (size + liveBytes > ceiling) return 'no_room_in_limit';
  await run.disk.look();
  // The copy is written twice: to its file and to the WAL.
  if (!hasRoom(run.disk, liveBytes * 2)) return 'no_room_on_disk';
  const stop = new AbortController();
  let reason: string | null = null;
  const guarding = guard(run, ceiling, stop.signal, (found) => {
    reason = found;
    stop.abort();
  });
  try {
    await maintenanceSession.ask(
      `vacuum (full true, parallel 0) ${name}`,
      [],
      run.times.rewriteMs(bytes),
      stop.signal,
    );
    return null;
  } catch (error) {
    return reason ?? reasonOf(error, run.signal);
  } finally {
    stop.abort();
    await guarding;
    run.progress.bytes = await sizeOf(run).catch(() => run.progress.bytes);
  }
}

/** Runs while the copy is written, because it can become larger than estimated. */
async function guard(
  run: Run,
  ceiling: number,
  ended: AbortSignal,
  onTooMuch: (reason: string) => void,
): Promise<void> {
  while (!ended.aborted) {
    const size = await sizeOf(run).catch(() => 0);
    if (ended.aborted) return;
    if (size > ceiling) return onTooMuch('no_room_in_limit');
    if (run.disk.isLow()) return onTooMuch('no_room_on_disk');
    await new Promise((resolve) => setTimeout(resolve, guardMs));
  }
}

/** How large the database may temporarily become. Read for each table: the limit can change in between. */
async function ceilingOf({ control, login, startBytes }: Run): Promise<number | null> {
  const [row] = await control.query<{ bytes: number }>(sql`
    select (empty_bytes + limit_mb * 1048576::bigint)::float8 as bytes
    from projects where id = ${login.id} and deleted_at is null`);
  return row ? Math.max(row.bytes, startBytes) + overLimitBytes : null;
}

async function sizeOf({ server, login }: Run): Promise<number> {
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
  // Reported once, for the whole compaction.
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
