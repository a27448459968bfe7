// Sessions in projects' databases: opening them, resetting them between two requests, and ending them by force.
import { shortenNotifyQueue } from '../../engine/notify-queue.ts';
import { isUserLogin, loginOf, type ProjectLogin, restoreLogin } from '../../engine/provision.ts';
import type { Server } from '../../engine/servers.ts';
import type { Terminations } from '../../engine/terminations.ts';
import { errors } from '../../errors.ts';
import { RefusedError, Session } from '../../postgres/session.ts';
import { createSessionPool, type PoolLimits } from '../../postgres/session-pool.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { type Gate, openGate } from './gate.ts';
import { openAudit, type TraceSource } from './session-audit.ts';
import {
  discardAll,
  prepareResets,
  resetSequences,
  resetSession,
  type SessionState,
  setMode,
} from './session-reset.ts';
import { sessionSettings } from './session-settings.ts';

/**
 * `read`: statements known only to read; PostgreSQL enforces it. `plain`: statements that leave behind at most a moved
 * sequence, and cannot see whether one was moved. `any`: all others.
 */
export type SessionUse = 'read' | 'plain' | 'any';

export type ProjectSessions = {
  acquire(project: ProjectLogin, use: SessionUse): Promise<Session>;
  /** An open idle session, or null. */
  takeIdle(project: ProjectLogin, use: 'read' | 'plain'): Session | null;
  /** Whether other projects wait for a session, or this one's sessions have to end. */
  isWanted(project: ProjectLogin): boolean;
  /** Resets the session, without making the caller wait, and returns it to the pool. */
  release(project: ProjectLogin, session: Session, leaves: SessionState): void;
  /** Runs `use` in a session outside the pool's limits, for a lookup while another session waits. */
  aside<T>(project: ProjectLogin, use: (session: Session) => Promise<T>): Promise<T>;
  /** `waitMs`: how long to wait for its last message, which tells that the statement was rolled back. */
  terminate(session: Session, waitMs?: number): void;
  /** A statement hit a limit of PostgreSQL. If it was the notification queue, other projects hit it too. */
  limitReached(): void;
  /** Lets the requests of a project wait, and closes its sessions as their statements end. */
  readonly gate: Gate;
  counts(): { open: number; idle: number; waiting: number };
  end(): Promise<void>;
};

const logins = [undefined, 'auth', 'user', 'anon'] as const;
/** The gate was closed while a request waited for a session. It waits at the gate instead. */
class GateClosedError extends Error {
  override readonly name = 'GateClosedError';
}

/** A statement that was assumed plain has left these traces in a shared session. */
type OnTraces = (projectId: string, source: TraceSource, traces: readonly string[]) => void;
/** An audit takes PostgreSQL 1 to 2 ms: at most a tenth of a core for all sessions together. */
const [auditEveryMs, auditEachMs] = [10_000, 20];

/** A session that does not answer in time is destroyed, which rejects the pending answer. */
async function within<T>(ms: number, session: Session, answer: Promise<T>): Promise<T> {
  const timer = setTimeout(() => session.destroy(), ms);
  try {
    return await answer;
  } finally {
    clearTimeout(timer);
  }
}
const [resetMs, asideMs] = [5_000, 10_000];

const maxAsides = 4;
type Aside = { session: Promise<Session>; users: number };
const shortenAgainMs = 50;
/** How long to wait for the last message of a terminated session. */
const terminateMs = 300;
/**
 * While PostgreSQL is unavailable or starting, one attempt per period is made, and all other requests get its result:
 * each attempt costs PostgreSQL a process, and hundreds per second make its recovery take several times as long.
 */
const outageMs = 200;

/** `ensureCurrent`: called before a session is opened, because an earlier version may have created the database. */
export function openProjectSessions(
  server: Server,
  ensureCurrent: (projectId: string) => Promise<void>,
  limits: PoolLimits,
  { terminations, onTraces }: { terminations: Terminations; onTraces: OnTraces },
): ProjectSessions {
  const pool = createSessionPool(limits);
  const gate = openGate((id) => {
    for (const loginAs of logins) {
      const poolKey = poolKeyOf({ id, passwordVersion: 1, ...(loginAs && { loginAs }) });
      pool.drop(poolKey);
      pool.turnAway(poolKey, new GateClosedError());
    }
  });
  const owners = new WeakMap<Session, ProjectLogin>();
  /** If one session has traces, others may have them: all idle ones are closed. */
  const report = (project: ProjectLogin, source: TraceSource, traces: readonly string[]) => {
    pool.drop(poolKeyOf(project));
    onTraces(project.id, source, traces);
  };
  const audit = openAudit(
    () => Math.max(auditEveryMs, pool.counts().open * auditEachMs),
    (session, traces) => {
      session.destroy();
      const owner = owners.get(session);
      if (owner) report(owner, 'sampled', traces);
    },
  );
  const asides = new Map<string, Aside>();
  const waitingAside: (() => void)[] = [];
  let shortenedAt = Number.NEGATIVE_INFINITY;
  /** A plain insert has moved a sequence here: reset before the first statement that could see it. */
  const withMovedSequences = new WeakSet<Session>();
  const readOnly = new WeakSet<Session>();
  /** A request that gets one of these waits until the reset has succeeded. */
  const resetting = new WeakMap<Session, Promise<void>>();
  const isClean = (session: Session) => !resetting.has(session);

  let outage = { until: Number.NEGATIVE_INFINITY, cause: null as unknown };
  const noteOutage = (error: unknown): Error => {
    if (isOutage(error)) outage = { until: performance.now() + outageMs, cause: error };
    return errors.unavailable(error);
  };

  const open = async (project: ProjectLogin): Promise<Session> => {
    if (performance.now() < outage.until) throw errors.unavailable(outage.cause);
    await ensureCurrent(project.id);
    const start = async (login: ProjectLogin) => {
      const session = await Session.open(
        loginOf(server, login),
        sessionSettings(server.userSettings, project.loginAs),
      );
      owners.set(session, project);
      void prepareResets(session, project.loginAs);
      return session;
    };
    try {
      return await start(project);
    } catch (error) {
      if (!isRestorable(error, project)) throw noteOutage(error);
    }
    return start(await restoreLogin(server, project)).catch((error) => {
      throw noteOutage(error);
    });
  };

  /** A project's lookups share one session, so that a busy project leaves room for others. Without room they wait. */
  const joinAside = async (project: ProjectLogin): Promise<Aside> => {
    const poolKey = poolKeyOf(project);
    while (asides.size >= maxAsides && (!asides.has(poolKey) || waitingAside.length > 0))
      await new Promise<void>((resolve) => waitingAside.push(resolve));
    const aside = asides.get(poolKey) ?? { session: open(project), users: 0 };
    asides.set(poolKey, aside);
    aside.users++;
    return aside;
  };
  const leaveAside = (project: ProjectLogin, aside: Aside): void => {
    if (--aside.users > 0) return;
    asides.delete(poolKeyOf(project));
    aside.session.then(
      (session) => session.close(),
      () => {},
    );
    for (const wake of waitingAside.splice(0)) wake();
  };

  const prepareFor = (session: Session, use: SessionUse): Session => {
    if (use === 'any' && withMovedSequences.delete(session)) resetSequences(session);
    if (use === 'read' && !readOnly.has(session)) {
      readOnly.add(session);
      setMode(session, 'read');
    } else if (use !== 'read' && readOnly.delete(session)) setMode(session, 'write');
    return session;
  };

  const take = async (project: ProjectLogin): Promise<Session> => {
    const poolKey = poolKeyOf(project);
    for (;;) {
      if (gate.isClosed(project.id)) await gate.pass(project.id);
      try {
        return pool.takeIdle(poolKey, isClean) ?? (await pool.acquire(poolKey, () => open(project)));
      } catch (error) {
        if (!(error instanceof GateClosedError)) throw error;
      }
    }
  };

  return {
    gate,
    acquire: async (project, use) => {
      for (;;) {
        const poolKey = poolKeyOf(project);
        const session = await take(project);
        const reset = resetting.get(session);
        if (reset) await within(resetMs, session, reset);
        if (session.isUsable || !reset) return prepareFor(session, use);
        pool.release(poolKey, session, false);
      }
    },
    takeIdle: (project, use) => {
      if (gate.isClosed(project.id)) return null;
      const session = pool.takeIdle(poolKeyOf(project), isClean);
      return session && prepareFor(session, use);
    },
    isWanted: (project) => gate.isClosed(project.id) || pool.isWanted(poolKeyOf(project)),
    release: (project, session, leaves) => {
      const poolKey = poolKeyOf(project);
      if (leaves === 'broken' || gate.isClosed(project.id)) return pool.release(poolKey, session, false);
      if (leaves === 'plain' || leaves === 'sequences') {
        if (leaves === 'sequences') withMovedSequences.add(session);
        // A plain statement does not change a setting.
        if (session.isAltered) report(project, 'reported', []);
        else audit.sample(session);
        return pool.release(poolKey, session, !session.isAltered);
      }
      readOnly.delete(session);
      withMovedSequences.delete(session);
      const reset = (leaves === 'anything' ? discardAll : resetSession)(session, project.loginAs);
      resetting.set(
        session,
        reset.then(() => void resetting.delete(session)),
      );
      pool.release(poolKey, session, true);
    },
    aside: async (project, use) => {
      const aside = await joinAside(project);
      try {
        const session = await aside.session;
        return await within(asideMs, session, use(session));
      } finally {
        leaveAside(project, aside);
      }
    },
    terminate: (session, waitMs = terminateMs) => {
      const owner = owners.get(session);
      if (owner) terminations.end(owner, session.pid);
      // A server that hangs sends none.
      setTimeout(() => session.destroy(), waitMs).unref();
    },
    limitReached: () => {
      const now = performance.now();
      if (now - shortenedAt < shortenAgainMs) return;
      shortenedAt = now;
      shortenNotifyQueue(server).catch(() => {});
    },
    counts: pool.counts,
    end: pool.end,
  };
}

/** Each role of a project has its own sessions. */
function poolKeyOf({ id, loginAs }: ProjectLogin): string {
  return loginAs === undefined ? id : `${id} ${loginAs}`;
}

/** No process listens, or PostgreSQL starts or stops. One project cannot cause this for the others. */
function isOutage(error: unknown): boolean {
  if (error instanceof RefusedError) return error.sqlstate === sqlstate.cannotConnectNow;
  return ['ECONNREFUSED', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '');
}

/** If the service died while it created an end users' role, that role may not have the right to connect yet. */
function isRestorable(error: unknown, { loginAs }: ProjectLogin): boolean {
  if (!(error instanceof RefusedError)) return false;
  const lacksConnect = isUserLogin(loginAs) && error.sqlstate === sqlstate.insufficientPrivilege;
  return lacksConnect || error.sqlstate === sqlstate.invalidPassword;
}
