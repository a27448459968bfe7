// Compaction: returns space to the disk, table by table, as the project's own roles. One at a time per project. The control
// database holds its progress, so that every process can report it and a dead run is distinguished from a live one.

import { randomUUID } from 'node:crypto';
import type { Compaction } from '@rowhouse/api';
import type { Control } from '../../control/control.ts';
import { errors, RowhouseError } from '../../errors/errors.ts';
import { slotsOnServers } from '../../lib/account-slots.ts';
import { toMb } from '../../lib/bytes.ts';
import { timeoutSignal } from '../../lib/timeout-signal.ts';
import { sql } from '../../postgres/sql.ts';
import type { ProjectLogin } from '../../servers/databases/login.ts';
import { databaseOf } from '../../servers/databases/names.ts';
import type { DiskWatch } from '../../servers/embedded/disk.ts';
import type { Server, Servers } from '../../servers/server.ts';
import { compactTables, type Progress } from './compact-tables.ts';

export { vacuumTables } from './vacuum.ts';

export type Compactions = {
  /** Starts a compaction, or returns the state of the one that is running. */
  start(login: ProjectLogin): Promise<Compaction>;
  find(projectId: string): Promise<Compaction | null>;
  stop(): Promise<void>;
};

type Deps = {
  control: Control;
  servers: Servers;
  /** The disk of a server. */
  diskOf: (serverId: number) => DiskWatch;
  onError: (error: unknown) => void;
};
type Running = { run: string; login: ProjectLogin; progress: Progress };

/** On a server. Each reads and writes whole tables: more at once would slow down all projects' statements. */
const limits = { all: 3, kept: 1, waiting: 80, waitingPerAccount: 20 };
const heartbeatMs = 1_000;
const aliveFor = sql`interval '15 seconds'`;
const maxMs = 30 * 60_000;
const maxSkipped = 100;

export function openCompactions({ control, servers, diskOf, onError }: Deps): Compactions {
  const stopping = new AbortController();
  const runs = new Set<Promise<void>>();
  const slotsOn = slotsOnServers('compactions', limits);

  const sizeIn = async ({ id, serverId }: ProjectLogin) => sizeOf(servers.of(serverId), id);

  const work = async ({ run, login, progress }: Running): Promise<void> => {
    let isMine = true;
    const overdue = timeoutSignal(maxMs);
    const lost = new AbortController();
    const signal = AbortSignal.any([stopping.signal, overdue, lost.signal]);
    const heartbeat = async () => {
      isMine = await save(control, login.id, run, progress);
      if (!isMine) lost.abort();
    };
    // Also while the run waits for its turn.
    const timer = setInterval(() => heartbeat().catch(onError), heartbeatMs);
    let end: Pick<Compaction, 'status' | 'error'> = { status: 'done', error: null };
    try {
      const compact = () => {
        const deps = { control, server: servers.of(login.serverId), disk: diskOf(login.serverId) };
        return compactTables(deps, login, progress, signal);
      };
      await slotsOn(login.serverId).take(login.accountId, compact, signal);
    } catch (error) {
      if (!signal.aborted) onError(error);
      end = { status: 'failed', error: explain(error) };
    } finally {
      clearInterval(timer);
    }
    if (overdue.aborted) end = { status: 'stopped', error: 'Its time was over. Start it again to go on.' };
    if (stopping.signal.aborted) end = { status: 'stopped', error: 'The service was stopped meanwhile.' };
    progress.bytes = await sizeIn(login).catch(() => progress.bytes);
    await save(control, login.id, run, progress, end);
  };

  return {
    start: async (login) => {
      if (stopping.signal.aborted) throw errors.unavailable('stopping');
      const bytes = await sizeIn(login);
      const run = randomUUID();
      slotsOn(login.serverId).requireRoom(login.accountId);
      if (await reserve(control, login.id, run, bytes)) {
        const progress = { total: 0, done: 0, current: null, bytes, skipped: [], skippedCount: 0 };
        const working = work({ run, login, progress })
          .catch(onError)
          .finally(() => runs.delete(working));
        runs.add(working);
      }
      const found = await find(control, login.id);
      if (!found) throw new Error('The compaction that was begun is not there.');
      return found;
    },
    find: (projectId) => find(control, projectId),
    stop: async () => {
      stopping.abort();
      await Promise.allSettled(runs);
    },
  };
}

/** Returns false if a compaction is already running. */
async function reserve(control: Control, id: string, run: string, bytes: number): Promise<boolean> {
  const rows = await control.change(sql`
    insert into compactions as last (project_id, run, status, alive_until, bytes_before, bytes)
    values (${id}, ${run}, 'running', now() + ${aliveFor}, ${bytes}::float8::bigint, ${bytes}::float8::bigint)
    on conflict (project_id) do update
    set run = excluded.run, status = 'running', alive_until = excluded.alive_until, started_at = now(),
        finished_at = null, tables_total = 0, tables_done = 0, current = null, bytes_before = excluded.bytes_before,
        bytes = excluded.bytes, skipped = '[]', skipped_count = 0, error = null
    where last.status <> 'running' or last.alive_until < now()
    returning run`);
  return rows.length > 0;
}

/** Returns false if the row belongs to a later run. */
async function save(
  control: Control,
  id: string,
  run: string,
  { total, done, current, bytes, skipped, skippedCount }: Progress,
  end: Pick<Compaction, 'status' | 'error'> | null = null,
): Promise<boolean> {
  const rows = await control.query(sql`
    update compactions
    set alive_until = now() + ${aliveFor}, tables_total = ${total}, tables_done = ${done},
        current = ${end ? null : current}, bytes = ${bytes}::float8::bigint,
        skipped = ${JSON.stringify(skipped.slice(0, maxSkipped))}::text::jsonb, skipped_count = ${skippedCount},
        status = ${end?.status ?? 'running'}, error = ${end?.error ?? null},
        finished_at = case when ${end !== null} then now() end
    where project_id = ${id} and run = ${run} and status = 'running'
    returning run`);
  return rows.length > 0;
}

type Row = Pick<
  Compaction,
  'status' | 'tables_total' | 'tables_done' | 'current' | 'skipped' | 'skipped_count' | 'error'
> & {
  started_at: Date;
  finished_at: Date | null;
  alive_until: Date;
  is_dead: boolean;
  before: number;
  now: number;
};

async function find(control: Control, id: string): Promise<Compaction | null> {
  const [row] = await control.query<Row>(sql`
    select status, started_at, finished_at, alive_until, status = 'running' and alive_until < now() as is_dead,
           tables_total, tables_done, current, skipped, skipped_count, error,
           greatest(0, bytes_before - empty_bytes)::float8 as before, greatest(0, bytes - empty_bytes)::float8 as now
    from compactions join projects on projects.id = project_id where project_id = ${id}`);
  if (!row) return null;
  return {
    status: row.is_dead ? 'stopped' : row.status,
    started_at: row.started_at.toISOString(),
    finished_at: (row.is_dead ? row.alive_until : row.finished_at)?.toISOString() ?? null,
    tables_total: row.tables_total,
    tables_done: row.tables_done,
    current: row.is_dead ? null : row.current,
    size_before_mb: toMb(row.before),
    size_mb: toMb(row.now),
    freed_mb: toMb(Math.max(0, row.before - row.now)),
    skipped: row.skipped,
    skipped_count: row.skipped_count,
    error: row.is_dead ? 'The process that ran it is gone. Start it again to go on.' : row.error,
  };
}

async function sizeOf(server: Server, id: string): Promise<number> {
  const [row] = await server.maintenance.query<{ bytes: number | null }>(
    sql`select pg_database_size(oid)::float8 as bytes from pg_database where datname = ${databaseOf(id)}`,
  );
  if (!row || row.bytes === null) throw errors.unavailable('the database of the project is not there');
  return row.bytes;
}

/** The project's owner reads this: it must not reveal internals. */
function explain(error: unknown): string {
  if (error instanceof RowhouseError) return error.message;
  return "Something went wrong inside the service. The service's log has more.";
}
