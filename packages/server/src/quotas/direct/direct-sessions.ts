// Direct connections (psql, ORMs) commit without the service's knowledge, so limit_mb is enforced from outside: a session
// that makes a full project larger is cancelled, and terminated if that is not enough (direct-guard.ts). This file handles
// the consequences: it vacuums what such sessions leave behind, has the next login told why, and refuses logins of clients
// that only reconnect to continue.
import type { Control } from '../../control/control.ts';
import { openDatabase } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { databaseOf } from '../../servers/databases/names.ts';
import { openListenerWaker } from '../../servers/guards/notify-queue.ts';
import type { Server } from '../../servers/server.ts';
import { vacuumTables } from '../reclaiming/vacuum.ts';
import {
  type GuardEvent,
  guardDirectSessions,
  type Stop,
  terminateBytes,
  type Unmeasured,
} from './direct-guard.ts';
import { setLoginGate } from './direct-login-gate.ts';
import { pauseDirect } from './direct-pauses.ts';
import { openLimitsCopy } from './limits-copy.ts';
import type { Flooded, HeldBack } from './notify-guard.ts';

type Deps = { control: Control; server: Server };
type Log = Record<'warn', (details: object, message: string) => void>;

export type DirectWatch = {
  /** Runs until `ended`, or until the connection to PostgreSQL is lost. */
  run(ended: AbortSignal): Promise<void>;
  stop(): Promise<void>;
};

type WatchedProject = {
  floorBytes: number;
  /** Tables with dead rows of aborted transactions. */
  toVacuum: Set<number>;
  /** The process ids that were stopped last, and when. */
  stopped: Set<number>;
  stoppedAt: number;
  isSettling: boolean;
  toldAt: number;
  /** As last set here; settleLoginGates may have opened it since. */
  gate: 'open' | 'full' | 'closed';
  gateSetAt: number;
  gateChange: Promise<void>;
};

const settleMs = 10_000;
const vacuumMs = 20_000;
const tellAgainMs = 10_000;
/** How long a gate is assumed to be unchanged: settleLoginGates opens it once the project has shrunk. */
const [trustFullMs, trustClosedMs] = [1_000, 100];
const forgetMs = 60_000;

export function watchDirectSessions({ control, server }: Deps, log: Log): DirectWatch {
  // Separate connections: this must not wait behind the creation of databases.
  const connections = openDatabase(server.address, { max: 2 });
  const waker = openListenerWaker(server);
  const watchedProjects = new Map<string, WatchedProject>();
  const tasks = new Set<Promise<void>>();
  let unmeasuredToldAt = Number.NEGATIVE_INFINITY;
  let floodedToldAt = Number.NEGATIVE_INFINITY;
  let isStopping = false;

  /** Events must be handled without delay, so nothing slow is awaited. */
  const withoutWaiting = (id: string, act: Promise<void>) => {
    const task = act
      .catch((error) =>
        log.warn(
          { err: error, project: id },
          'a direct connection was stopped, but the cleanup after it failed',
        ),
      )
      .finally(() => tasks.delete(task));
    tasks.add(task);
  };

  const onEvent = (event: GuardEvent) => {
    if ('queueUsage' in event) return waker.wake();
    if ('heldBack' in event) return tellHeldBack(event);
    if ('flooding' in event) return tellFlooded(event);
    if ('error' in event) return tellUnmeasured(event);
    forgetOld();
    const { project: id, floorBytes, cancelled, ended } = event;
    const watchedProject = watchedProjects.get(id) ?? newWatchedProject();
    watchedProjects.set(id, watchedProject);
    for (const oid of event.tables) watchedProject.toVacuum.add(oid);
    for (const pid of [...cancelled, ...ended]) watchedProject.stopped.add(pid);
    watchedProject.stoppedAt = event.at;
    watchedProject.floorBytes = floorBytes;
    if (event.isFirst) watchedProject.gate = 'open';
    changeGate(event, watchedProject, event.isTooFar ? 'closed' : 'full');
    if (!watchedProject.isSettling) withoutWaiting(id, settle(event, watchedProject));
    if (performance.now() - watchedProject.toldAt < tellAgainMs) return;
    watchedProject.toldAt = performance.now();
    log.warn(
      { ...factsOf(event), cancelled: cancelled.length, ended: ended.length },
      'direct connections made a full project larger and were stopped',
    );
  };

  const tellUnmeasured = ({ project, error }: Unmeasured) => {
    if (performance.now() - unmeasuredToldAt < tellAgainMs) return;
    unmeasuredToldAt = performance.now();
    log.warn({ project, error }, 'a project with direct connections cannot be measured; retrying');
  };

  const tellHeldBack = ({ project, heldBack, usage, isProven, pausedUntil }: HeldBack) => {
    const facts = { project, sessions: heldBack, queue_usage: usage };
    if (!isProven)
      return log.warn(
        facts,
        'sessions were ended to shorten the queue of notifications, which other sessions held back',
      );
    log.warn(facts, 'sessions held back the queue of notifications and were ended');
    if (pausedUntil === null) return;
    log.warn(
      { project, until: new Date(pausedUntil) },
      'a project held back the queue of notifications again: direct connections are refused for a while',
    );
    withoutWaiting(project, pauseDirect(server, project, pausedUntil));
  };

  const tellFlooded = ({ project, flooding, usage }: Flooded) => {
    if (performance.now() - floodedToldAt < tellAgainMs) return;
    floodedToldAt = performance.now();
    log.warn(
      { project, sessions: flooding, queue_usage: usage },
      'a project fills the queue of notifications, which a session of another one holds back: what it runs is ended',
    );
  };

  const forgetOld = () => {
    for (const [id, watchedProject] of watchedProjects) {
      if (!watchedProject.isSettling && performance.now() - watchedProject.toldAt > forgetMs)
        watchedProjects.delete(id);
    }
  };

  /**
   * A stopped client learns the reason at its next login; settleLoginGates removes the notice later. Changes run one after
   * another: a slow change to `full` must not open a gate that was closed in the meantime.
   */
  const changeGate = (stop: Stop, watchedProject: WatchedProject, state: 'full' | 'closed') => {
    if (watchedProject.gate === 'closed' && state === 'full') return;
    // If a session came through a closed gate, another process has opened it, or the change has not taken effect yet.
    const trustMs = state === 'full' ? trustFullMs : trustClosedMs;
    if (watchedProject.gate === state && performance.now() - watchedProject.gateSetAt < trustMs) return;
    const isEnabled =
      watchedProject.gate === 'full' && performance.now() - watchedProject.gateSetAt < trustFullMs;
    const isNew = watchedProject.gate !== state;
    Object.assign(watchedProject, { gate: state, gateSetAt: performance.now() });
    const gate = state === 'full' ? { state } : { state, reopenBytes: stop.floorBytes };
    watchedProject.gateChange = watchedProject.gateChange
      .catch(() => {})
      .then(() => setLoginGate(server, stop.project, gate, isEnabled))
      .catch((error) => {
        watchedProject.gate = 'open';
        throw error;
      });
    withoutWaiting(stop.project, watchedProject.gateChange);
    if (state === 'full' || !isNew) return;
    log.warn(
      factsOf(stop),
      'direct connections took a project too far over its limit; new ones are refused until it has space',
    );
  };

  /** Vacuums once the stopped sessions have ended. What they committed stays, so if it is too much the gate is closed. */
  const settle = async (stop: Stop, watchedProject: WatchedProject) => {
    watchedProject.isSettling = true;
    try {
      do {
        await waitUntilStopped(watchedProject);
        const oids = [...watchedProject.toVacuum];
        watchedProject.toVacuum.clear();
        const login = await findLogin(control, server, stop.project);
        if (login) await vacuumTables({ server }, login, oids, { timeoutMs: vacuumMs });
      } while (watchedProject.toVacuum.size > 0);
      const bytes = await measure(stop.project);
      if (bytes - watchedProject.floorBytes >= terminateBytes)
        changeGate({ ...stop, bytes }, watchedProject, 'closed');
    } finally {
      watchedProject.isSettling = false;
    }
  };

  const waitUntilStopped = async (watchedProject: WatchedProject) => {
    const deadline = performance.now() + settleMs;
    while (performance.now() < deadline && !isStopping) {
      const [row] = await connections.query<{ pids: number[] }>(sql`
        select coalesce(array_agg(pid), '{}') as pids from pg_stat_activity
        where pid = any (${[...watchedProject.stopped]}::int[]) and state in ('active', 'fastpath function call')
          and query_start <= to_timestamp(${watchedProject.stoppedAt}::float8 / 1000)`);
      watchedProject.stopped = new Set(row?.pids ?? []);
      if (watchedProject.stopped.size === 0) return;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };

  const measure = async (id: string): Promise<number> => {
    const [row] = await connections.query<{ bytes: number | null }>(
      sql`select pg_database_size(oid)::float8 as bytes from pg_database where datname = ${databaseOf(id)}`,
    );
    return row?.bytes ?? 0;
  };

  const guard = async (ended: AbortSignal): Promise<void> => {
    if (server.holdsControl) return guardDirectSessions({ limits: control, server }, onEvent, ended);
    const copy = await openLimitsCopy(control, server);
    // When one of the two fails, both end, and begin again together.
    const failed = new AbortController();
    const either = AbortSignal.any([ended, failed.signal]);
    const fail = (error: unknown) => {
      failed.abort();
      throw error;
    };
    const ends = await Promise.allSettled([
      copy.follow(either).catch(fail),
      guardDirectSessions({ limits: copy.database, server }, onEvent, either).catch(fail),
    ]);
    await copy.database.end();
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
  };

  return {
    run: async (ended) => {
      const [role] = await connections.query<{ can: boolean }>(sql`
        select pg_has_role('pg_read_all_stats', 'usage') and pg_has_role('pg_signal_backend', 'usage') as can`);
      // Otherwise our role can neither see other sessions' activity nor end them: reported as a finding at the start.
      if (role?.can) return guard(ended);
      if (ended.aborted) return;
      await new Promise((resolve) => ended.addEventListener('abort', resolve, { once: true }));
    },
    stop: async () => {
      isStopping = true;
      await Promise.allSettled(tasks);
      await waker.stop();
      await connections.end();
    },
  };
}

function newWatchedProject(): WatchedProject {
  return {
    floorBytes: 0,
    toVacuum: new Set(),
    stopped: new Set(),
    stoppedAt: 0,
    isSettling: false,
    toldAt: Number.NEGATIVE_INFINITY,
    gate: 'open',
    gateSetAt: Number.NEGATIVE_INFINITY,
    gateChange: Promise.resolve(),
  };
}

function factsOf({ project, bytes, limitBytes }: Stop) {
  return { project, size_bytes: bytes, limit_bytes: limitBytes };
}

async function findLogin(control: Control, server: Server, id: string) {
  const [row] = await control.query<{ passwordVersion: number }>(
    sql`select password_version as "passwordVersion" from projects where id = ${id} and deleted_at is null`,
  );
  return row && { id, serverId: server.id, passwordVersion: row.passwordVersion, accountId: null };
}
