// Sessions in projects' databases: how they are opened, cleaned between two requests, and ended by force.

import { shortenNotifyQueue } from '../../engine/notify-queue.ts';
import { isUserLogin, loginOf, type ProjectLogin, restoreLogin } from '../../engine/provision.ts';
import type { Server } from '../../engine/servers.ts';
import type { Terminations } from '../../engine/terminations.ts';
import { errors } from '../../errors.ts';
import { RefusedError, Session } from '../../postgres/session.ts';
import { createSessionPool, type PoolLimits } from '../../postgres/session-pool.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
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
 * `read`: of what is known to read alone; PostgreSQL holds it to that. `plain`: of what leaves nothing but a moved sequence,
 * and does not see whether one was moved. `any`: of everything else.
 */
export type SessionUse = 'read' | 'plain' | 'any';

export type ProjectSessions = {
  acquire(project: ProjectLogin, use: SessionUse): Promise<Session>;
  /** One that is open and idle. */
  takeIdle(project: ProjectLogin, use: 'read' | 'plain'): Session | null;
  /** Whether other projects wait for a connection. */
  isWanted(project: ProjectLogin): boolean;
  /** Cleans it of what was left, without the caller's waiting for that, and gives it back. */
  release(project: ProjectLogin, session: Session, leaves: SessionState): void;
  /** A session outside the pool's count, for looking something up while another one waits. */
  aside<T>(project: ProjectLogin, use: (session: Session) => Promise<T>): Promise<T>;
  /** `waitMs`: how long its last words, which tell that what ran was undone, are waited for. */
  terminate(session: Session, waitMs?: number): void;
  /** A statement met a limit of PostgreSQL's: if it was the queue of notifications, neighbours meet it too. */
  limitReached(): void;
  counts(): { open: number; idle: number; waiting: number };
  end(): Promise<void>;
};

/** A statement that was taken for plain has left these in a session that others share. */
type OnTraces = (projectId: string, source: TraceSource, traces: readonly string[]) => void;
/** A look takes PostgreSQL a millisecond or two: no more than a tenth of a core for all sessions together. */
const [auditEveryMs, auditEachMs] = [10_000, 20];

/** A session that does not answer in time is cut: whoever waits for it hears of that. */
async function within<T>(ms: number, session: Session, answer: Promise<T>): Promise<T> {
  const late = setTimeout(() => session.destroy(), ms);
  try {
    return await answer;
  } finally {
    clearTimeout(late);
  }
}
const [resetMs, asideMs] = [5_000, 10_000];

const asideAtOnce = 4;
type Aside = { session: Promise<Session>; users: number };
const shortenAgainMs = 50;
/** How long the last words of a session that is ended by force are waited for. */
const cutMs = 300;
/**
 * While PostgreSQL is away or starting, one attempt in so long is made, and everybody else is told what became of it:
 * each costs it a process, and hundreds a second make its recovery take several times as long.
 */
const awayMs = 200;

/** `ensureCurrent`: called before a project's database is entered, which may have been made by an earlier version. */
export function openProjectSessions(
  server: Server,
  ensureCurrent: (projectId: string) => Promise<void>,
  limits: PoolLimits,
  { terminations, onTraces }: { terminations: Terminations; onTraces: OnTraces },
): ProjectSessions {
  const pool = createSessionPool(limits);
  const owners = new WeakMap<Session, ProjectLogin>();
  /** Where one was found, others may have been left: none that is idle is used again. */
  const report = (project: ProjectLogin, source: TraceSource, traces: readonly string[]) => {
    pool.drop(placeOf(project));
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
  /** Where a plain insert has moved a sequence: cleaned before the first statement that could see it. */
  const moved = new WeakSet<Session>();
  const reading = new WeakSet<Session>();
  /** Whoever gets one of these waits until it is known to be clean. */
  const resetting = new WeakMap<Session, Promise<void>>();
  const isClean = (session: Session) => !resetting.has(session);

  let away = { until: Number.NEGATIVE_INFINITY, cause: null as unknown };
  const noteAway = (error: unknown): Error => {
    if (isAway(error)) away = { until: performance.now() + awayMs, cause: error };
    return errors.unavailable(error);
  };

  const open = async (project: ProjectLogin): Promise<Session> => {
    if (performance.now() < away.until) throw errors.unavailable(away.cause);
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
      if (!isRestorable(error, project)) throw noteAway(error);
    }
    return start(await restoreLogin(server, project)).catch((error) => {
      throw noteAway(error);
    });
  };

  /** All of a project share one, so that one with many leaves room for the others; who finds no room waits for it. */
  const joinAside = async (project: ProjectLogin): Promise<Aside> => {
    const place = placeOf(project);
    while (asides.size >= asideAtOnce && (!asides.has(place) || waitingAside.length > 0))
      await new Promise<void>((resolve) => waitingAside.push(resolve));
    const aside = asides.get(place) ?? { session: open(project), users: 0 };
    asides.set(place, aside);
    aside.users++;
    return aside;
  };
  const leaveAside = (project: ProjectLogin, aside: Aside): void => {
    if (--aside.users > 0) return;
    asides.delete(placeOf(project));
    aside.session.then(
      (session) => session.close(),
      () => {},
    );
    for (const goOn of waitingAside.splice(0)) goOn();
  };

  const makeFit = (session: Session, use: SessionUse): Session => {
    if (use === 'any' && moved.delete(session)) resetSequences(session);
    if (use === 'read' && !reading.has(session)) {
      reading.add(session);
      setMode(session, 'read');
    } else if (use !== 'read' && reading.delete(session)) setMode(session, 'write');
    return session;
  };

  return {
    acquire: async (project, use) => {
      for (;;) {
        const place = placeOf(project);
        const session = pool.takeIdle(place, isClean) ?? (await pool.acquire(place, () => open(project)));
        const reset = resetting.get(session);
        if (reset) await within(resetMs, session, reset);
        if (session.isUsable || !reset) return makeFit(session, use);
        pool.release(place, session, false);
      }
    },
    takeIdle: (project, use) => {
      const session = pool.takeIdle(placeOf(project), isClean);
      return session && makeFit(session, use);
    },
    isWanted: (project) => pool.isWanted(placeOf(project)),
    release: (project, session, leaves) => {
      const place = placeOf(project);
      if (leaves === 'broken') return pool.release(place, session, false);
      if (leaves === 'plain' || leaves === 'sequences') {
        if (leaves === 'sequences') moved.add(session);
        // Nothing that leaves nothing changes a setting.
        if (session.isAltered) report(project, 'reported', []);
        else audit.sample(session);
        return pool.release(place, session, !session.isAltered);
      }
      reading.delete(session);
      moved.delete(session);
      const reset = (leaves === 'anything' ? discardAll : resetSession)(session, project.loginAs);
      resetting.set(
        session,
        reset.then(() => void resetting.delete(session)),
      );
      pool.release(place, session, true);
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
    terminate: (session, waitMs = cutMs) => {
      const owner = owners.get(session);
      if (owner) terminations.end(owner, session.pid);
      // A server that hangs says none.
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

/** Sessions of one project as different roles are not each other's. */
function placeOf({ id, loginAs }: ProjectLogin): string {
  return loginAs === undefined ? id : `${id} ${loginAs}`;
}

/** Nothing that one project could bring about for the others: nobody listens, or PostgreSQL says that it starts or stops. */
function isAway(error: unknown): boolean {
  if (error instanceof RefusedError) return error.sqlstate === sqlstate.cannotConnectNow;
  return ['ECONNREFUSED', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '');
}

/** A visitor's role that was being made when the service died may not be let in yet. */
function isRestorable(error: unknown, { loginAs }: ProjectLogin): boolean {
  if (!(error instanceof RefusedError)) return false;
  const isShutOut = isUserLogin(loginAs) && error.sqlstate === sqlstate.insufficientPrivilege;
  return isShutOut || error.sqlstate === sqlstate.invalidPassword;
}
