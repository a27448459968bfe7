// The pool of project sessions: a budget for those in use, a share for each project, and a bounded queue with a deadline.
// Opening a session costs a hundred times as much as a short statement, so idle sessions stay open while memory allows.
// At the limit, the project that has been idle longest loses one.
import { errors } from '../errors.ts';
import type { Session } from './session.ts';

export type SessionPool = {
  /** A session for one request. Throws 429 if none becomes free in time. */
  acquire(project: string, open: () => Promise<Session>): Promise<Session>;
  /** An open idle session, or null. */
  takeIdle(project: string, isFit?: (session: Session) => boolean): Session | null;
  /** Whether other projects wait for a session. */
  isWanted(project: string): boolean;
  /** Returns a session to the pool. One that is not reusable is closed. */
  release(project: string, session: Session, reusable: boolean): void;
  /** Closes the project's idle sessions. */
  drop(project: string): void;
  /** Rejects those who wait for a session of the project. */
  turnAway(project: string, error: Error): void;
  counts(): { open: number; idle: number; waiting: number };
  end(): Promise<void>;
};

/** `budget`: sessions in use at a time. `maxOpen`: open sessions, used and idle; at least `budget`. */
export type PoolLimits = {
  budget: number;
  maxOpen: number;
  share: number;
  waiting: number;
  waitMs: number;
  idleMs: number;
};

type Waiter = {
  project: string;
  since: number;
  openSession: () => Promise<Session>;
  resolve: (session: Session | Promise<Session>) => void;
  reject: (error: Error) => void;
};
type ProjectPool = { idle: Session[]; open: number; usedAt: number };
const isAny = () => true;

export function createSessionPool(limits: PoolLimits): SessionPool {
  /** Least recently used first. */
  const pools = new Map<string, ProjectPool>();
  const waiters: Waiter[] = [];
  let open = 0;
  let used = 0;
  let ended = false;
  let lateTimer: NodeJS.Timeout | null = null;
  let onEmpty: (() => void) | null = null;

  const poolOf = (project: string): ProjectPool => {
    const found = pools.get(project);
    if (found) return found;
    const pool = { idle: [], open: 0, usedAt: 0 };
    pools.set(project, pool);
    return pool;
  };

  const noteClosed = (project: string) => {
    const pool = poolOf(project);
    pool.open--;
    open--;
    if (pool.open === 0) pools.delete(project);
    if (open === 0) onEmpty?.();
  };

  const takeIdle = (project: string, isFit: (session: Session) => boolean = isAny): Session | null => {
    const pool = used < limits.budget ? pools.get(project) : undefined;
    while (pool) {
      const at = pool.idle.findLastIndex((session) => !session.isUsable || isFit(session));
      const [session] = at < 0 ? [] : pool.idle.splice(at, 1);
      if (!session) return null;
      if (session.isUsable) {
        used++;
        return session;
      }
      noteClosed(project);
    }
    return null;
  };

  /** Makes room by closing the session that has been idle longest. */
  const closeLongestIdle = (): boolean => {
    for (const [project, pool] of pools) {
      if (pool.idle.length === 0) continue;
      pool.idle.shift()?.close();
      noteClosed(project);
      return true;
    }
    return false;
  };

  const mayOpen = (project: string): boolean =>
    used < limits.budget &&
    (pools.get(project)?.open ?? 0) < limits.share &&
    (open < limits.maxOpen || closeLongestIdle());

  const reserve = (project: string) => {
    poolOf(project).open++;
    open++;
    used++;
  };

  /** Serves every waiter for whom there is room now, first come, first served. */
  const serveWaiters = () => {
    for (let index = 0; index < waiters.length && used < limits.budget; ) {
      const waiter = waiters[index] as Waiter;
      const idle = takeIdle(waiter.project);
      if (idle) {
        waiters.splice(index, 1);
        waiter.resolve(idle);
      } else if (mayOpen(waiter.project)) {
        waiters.splice(index, 1);
        reserve(waiter.project);
        waiter.resolve(openNow(waiter.project, waiter.openSession));
      } else {
        index++;
      }
    }
  };

  const openNow = async (project: string, openSession: () => Promise<Session>): Promise<Session> => {
    try {
      return await openSession();
    } catch (error) {
      used--;
      noteClosed(project);
      serveWaiters();
      throw error;
    }
  };

  const wait = (project: string, openSession: () => Promise<Session>): Promise<Session> => {
    if (waiters.length >= limits.waiting) throw errors.overloaded('Too many statements are waiting.', 1);
    lateTimer ??= setInterval(rejectLate, limits.waitMs / 50);
    return new Promise((resolve, reject) => {
      waiters.push({ project, since: performance.now(), openSession, resolve, reject });
    });
  };

  /** The queue is in order of arrival. One timer serves all waiters, because hardly any waits that long. */
  const rejectLate = () => {
    const before = performance.now() - limits.waitMs;
    while (waiters[0] && waiters[0].since < before) {
      waiters.shift()?.reject(errors.overloaded('No database connection became free in time.', 1));
    }
    if (waiters.length === 0 && lateTimer) {
      clearInterval(lateTimer);
      lateTimer = null;
    }
  };

  const closeIdle = (project: string, pool: ProjectPool, from: number) => {
    for (const session of pool.idle.splice(from)) {
      session.close();
      noteClosed(project);
    }
  };

  const sweepMs = Math.min(10_000, Math.max(100, limits.idleMs / 4));
  const sweep = setInterval(() => {
    const now = performance.now();
    for (const [project, pool] of pools) {
      if (pool.usedAt < now - limits.idleMs) closeIdle(project, pool, 0);
      // Beyond the budget, a project keeps one idle session for its next request, not all that a burst has opened.
      else if (open > limits.budget && pool.usedAt < now - sweepMs) closeIdle(project, pool, 1);
    }
  }, sweepMs).unref();

  return {
    takeIdle: (project, isFit) => (ended ? null : takeIdle(project, isFit)),
    isWanted: (project) => waiters.length > 0 && waiters.some((waiter) => waiter.project !== project),
    acquire: async (project, openSession) => {
      if (ended) throw errors.unavailable('stopping');
      const idle = takeIdle(project);
      if (idle) return idle;
      if (!mayOpen(project)) return wait(project, openSession);
      reserve(project);
      return openNow(project, openSession);
    },
    release: (project, session, reusable) => {
      const pool = poolOf(project);
      pool.usedAt = performance.now();
      pools.delete(project);
      pools.set(project, pool);
      used--;
      if (reusable && session.isUsable && !ended) pool.idle.push(session);
      else {
        session.destroy();
        noteClosed(project);
      }
      if (waiters.length > 0) serveWaiters();
    },
    drop: (project) => {
      const pool = pools.get(project);
      if (pool) closeIdle(project, pool, 0);
    },
    turnAway: (project, error) => {
      for (let index = waiters.length - 1; index >= 0; index--) {
        if (waiters[index]?.project === project) waiters.splice(index, 1)[0]?.reject(error);
      }
    },
    counts: () => ({
      open,
      idle: open - used,
      waiting: waiters.length,
    }),
    end: async () => {
      ended = true;
      clearInterval(sweep);
      for (const [project, pool] of pools) closeIdle(project, pool, 0);
      if (open > 0) {
        await new Promise<void>((resolve) => {
          onEmpty = resolve;
        });
      }
    },
  };
}
