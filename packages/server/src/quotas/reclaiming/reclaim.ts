// Frees what a refused or failed statement has left on disk, and makes deleted space usable again: VACUUM of the tables that
// need it, as the project's own role, and REINDEX where entries of rows that were never committed fill an index.
import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { upTo } from '../../lib/cache-size.ts';
import { AskError } from '../../postgres/wire/ask.ts';
import type { ProjectLogin } from '../../servers/databases/login.ts';
import type { Terminations } from '../../servers/guards/terminations.ts';
import type { Server, Servers } from '../../servers/server.ts';
import type { Headroom } from '../headroom.ts';
import { rewriting } from '../reserve.ts';
import {
  type Dirty,
  findDirty,
  findDirtyOfOurs,
  findSwollenIndexes,
  hasDead,
  measureTables,
  type Present,
} from './dirty-tables.ts';
import { type MaintenanceSession, openMaintenanceSession } from './maintenance-session.ts';
import { estimateTable } from './table-estimates.ts';

export type Reclaim = {
  /** Concurrent calls share one run. Never throws: what cannot be done now is done next time. */
  run(project: ProjectLogin): Promise<void>;
  stop(): Promise<void>;
};

/** How long a refused request waits for a backend that does not end. The space of that backend is reclaimed later. */
const endingMs = 3_000;
const attempts = 10;
const againMs = 1_000;

type Options = {
  servers: Servers;
  headroom: Headroom;
  terminations: Terminations;
  onError: (error: unknown) => void;
};

export function openReclaim({ servers, headroom, terminations, onError }: Options): Reclaim {
  const running = new Map<string, { now: Promise<void>; next: Promise<void> | null }>();
  let isStopped = false;
  const start = (project: ProjectLogin, attempt = 1): Promise<void> => {
    if (isStopped) return Promise.resolve();
    const work = async () => {
      const ending = terminations.of(project.id);
      if (ending) await Promise.race([ending, sleep(endingMs, undefined, { ref: false })]);
      const isDone = await reclaim(servers, headroom, project).catch((error) => {
        onError(error);
        return false;
      });
      // Another session had locked a table: try again later.
      if (!isDone && attempt < attempts) setTimeout(() => void again(project, attempt + 1), againMs).unref();
    };
    const turn = { now: work(), next: null };
    running.set(project.id, turn);
    return turn.now.finally(() => {
      if (running.get(project.id) === turn) running.delete(project.id);
    });
  };
  const again = (project: ProjectLogin, attempt: number) =>
    running.get(project.id)?.now ?? start(project, attempt);
  return {
    run: ({ id, serverId, passwordVersion }) => {
      const project = { id, serverId, passwordVersion, accountId: null };
      const turn = running.get(id);
      if (!turn) return start(project);
      // The current run may already be past the table that this call is about.
      turn.next ??= turn.now.then(() => start(project));
      return turn.next;
    },
    stop: async () => {
      isStopped = true;
      await Promise.all([...running.values()].map(({ now, next }) => next ?? now));
    },
  };
}

/** Per table. Larger ones are left to POST …/compact. */
const stepMs = 60_000;
const vacuum = 'vacuum (truncate true, index_cleanup auto, process_toast true, parallel 0)';

/** Returns false if more space could be freed but a lock or an error prevented it. */
async function reclaim(servers: Servers, headroom: Headroom, project: ProjectLogin): Promise<boolean> {
  const server = servers.of(project.serverId);
  const own = await openMaintenanceSession(server, project);
  try {
    const found = await findDirty(own);
    const tables = found.filter(({ bytes }) => bytes !== null);
    await tidy(own, tables);
    const { isFull } = await headroom.look(project.id);
    const ours = await findDirtyOfOurs(own, isFull);
    if (ours.length > 0) await asService(server, project, (service) => tidy(service, ours));
    if (!isFull) return tables.length === found.length && !(await hasDead(own, tables));
    const isOver = async () => {
      const { size, cap } = await headroom.look(project.id);
      return size > cap;
    };
    // Where the limit holds, a copy must promise room: while it is written, the table is on disk twice.
    const promises = async ({ oid, name, bytes }: Present) => {
      const { size, limit } = await headroom.look(project.id);
      return size > limit || bytes === null || bytes < smallBytes || (await wouldShrink(own, oid, name));
    };
    const rewrite = (maintenanceSession: MaintenanceSession, some: readonly Dirty[], isWorth: Judge) =>
      rewriteWhile({ isOver, isWorth }, maintenanceSession, project.id, some);
    let isDone = await rewrite(own, tables, promises);
    if (ours.length > 0 && (await isOver()))
      await asService(server, project, async (service) => {
        isDone = (await rewrite(service, ours, async () => true)) && isDone;
      });
    // A project that is over its limit with nothing left to reclaim stays so until the caller deletes data.
    return (isDone && tables.length === found.length) || !(await isOver());
  } finally {
    own.close();
  }
}

async function tidy(maintenanceSession: MaintenanceSession, tables: readonly Dirty[]): Promise<void> {
  for (const { name } of tables) await tryTo(maintenanceSession, `${vacuum} ${name}`);
  const swollen = tables.length > 0 ? await findSwollenIndexes(maintenanceSession, tables) : [];
  for (const { name } of swollen) await tryTo(maintenanceSession, `reindex table ${name}`);
}

/** A smaller table is copied without an estimate. */
const smallBytes = 1024 * 1024;
type Judge = (table: Present) => Promise<boolean>;

/** By an estimate that needs fresh statistics. */
async function wouldShrink(own: MaintenanceSession, oid: string, name: string): Promise<boolean> {
  await tryTo(own, `analyze ${name}`);
  const found = await estimateTable(own, oid);
  return found !== null && found.liveBytes < found.bytes * (15 / 16);
}

/** The size and rows of a table when it was last rewritten or judged: it is rewritten again only if there is more to gain. */
const rewritten = new LRUCache<string, { bytes: number; rows: number }>(upTo(20_000));

/** VACUUM truncates a table only if its empty end is large enough. Returns false if a lock or an error prevented a rewrite. */
async function rewriteWhile(
  { isOver, isWorth }: { isOver: () => Promise<boolean>; isWorth: Judge },
  maintenanceSession: MaintenanceSession,
  projectId: string,
  tables: readonly Dirty[],
): Promise<boolean> {
  if (tables.length === 0 || !(await isOver())) return true;
  let isDone = true;
  for (const table of await measureTables(maintenanceSession, tables)) {
    const key = `${projectId} ${table.oid}`;
    const last = rewritten.get(key);
    if (table.bytes !== null && last && !hasMoreToGain(table.bytes, table.rows, last)) continue;
    if (!last && !(await isWorth(table))) {
      if (table.bytes !== null) rewritten.set(key, { bytes: table.bytes, rows: table.rows });
      continue;
    }
    // If the table is larger, only its indexes are rewritten.
    const text = (table.bytes ?? 0) > rewriting ? 'reindex table' : 'vacuum (full)';
    isDone = table.bytes !== null && (await tryTo(maintenanceSession, `${text} ${table.name}`)) && isDone;
    const [now] = await measureTables(maintenanceSession, [table]);
    if (now?.bytes != null) rewritten.set(key, { bytes: now.bytes, rows: now.rows });
    if (!(await isOver())) return true;
  }
  return isDone;
}

function hasMoreToGain(bytes: number, rows: number, last: { bytes: number; rows: number }): boolean {
  return bytes > last.bytes * (17 / 16) + 64 * 1024 || rows < last.rows * (15 / 16);
}

/** Statements on users wait for 3 s (query/sessions/session-settings.ts): for a rewrite that waits, and then for the rewrite itself. */
const oursLockMs = 500;

/** For tables that the project's role may not vacuum. They run no code of the project. */
async function asService(
  server: Server,
  project: ProjectLogin,
  act: (maintenanceSession: MaintenanceSession) => Promise<void>,
): Promise<void> {
  const service = await openMaintenanceSession(server, project, { asService: true, lockMs: oursLockMs });
  try {
    await act(service);
  } finally {
    service.close();
  }
}

/** Returns false if the table no longer exists, or is locked for longer than lock_timeout. */
async function tryTo(maintenanceSession: MaintenanceSession, text: string): Promise<boolean> {
  try {
    await maintenanceSession.ask(text, [], stepMs);
    return true;
  } catch (error) {
    if (error instanceof AskError) return false;
    throw error;
  }
}
