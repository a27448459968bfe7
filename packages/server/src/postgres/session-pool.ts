// Connections of projects: a budget for the server, a share for each project, a bounded queue with a deadline.
// When the budget is used up, the project that was idle longest gives up a connection.
import { errors } from '../errors.ts';
import type { Session } from './session.ts';

export type SessionPool = {
  /** A connection for this request alone. Throws 429 when none comes in time. */
  acquire(project: string, open: () => Promise<Session>): Promise<Session>;
  /** One that is open and idle, if there is any. */
  takeIdle(project: string): Session | null;
  /** Whether other projects wait for a connection. */
  isWanted(project: string): boolean;
  /** Gives it back: clean, or not to be used again. */
  release(project: string, session: Session, reusable: boolean): void;
  counts(): { open: number; idle: number; waiting: number };
  end(): Promise<void>;
};

export type PoolLimits = { budget: number; share: number; waiting: number; waitMs: number; idleMs: number };

type Waiter = {
  project: string;
  since: number;
  openSession: () => Promise<Session>;
  resolve: (session: Session | Promise<Session>) => void;
  reject: (error: Error) => void;
};
type Place = { idle: Session[]; open: number; usedAt: number };

export function createSessionPool(limits: PoolLimits): SessionPool {
  const places = new Map<string, Place>();
  const waiters: Waiter[] = [];
  let open = 0;
  let ended = false;
  let waking: NodeJS.Timeout | null = null;
  let onEmpty: (() => void) | null = null;

  const placeOf = (project: string): Place => {
    const found = places.get(project);
    if (found) return found;
    const place = { idle: [], open: 0, usedAt: 0 };
    places.set(project, place);
    return place;
  };

  const closed = (project: string) => {
    const place = placeOf(project);
    place.open--;
    open--;
    if (place.open === 0) places.delete(project);
    if (open === 0) onEmpty?.();
  };

  const takeIdle = (project: string): Session | null => {
    const place = places.get(project);
    while (place && place.idle.length > 0) {
      const session = place.idle.pop();
      if (session?.isUsable) return session;
      closed(project);
    }
    return null;
  };

  /** Makes room in the budget by ending the connection that was idle longest. */
  const giveUpIdle = (): boolean => {
    let oldest: [string, Place] | null = null;
    for (const entry of places) {
      if (entry[1].idle.length > 0 && (!oldest || entry[1].usedAt < oldest[1].usedAt)) oldest = entry;
    }
    if (!oldest) return false;
    oldest[1].idle.shift()?.close();
    closed(oldest[0]);
    return true;
  };

  const mayOpen = (project: string): boolean =>
    (places.get(project)?.open ?? 0) < limits.share && (open < limits.budget || giveUpIdle());

  const reserve = (project: string) => {
    placeOf(project).open++;
    open++;
  };

  /** Lets those wait no longer for whom there is a place now, first come first served. */
  const serveWaiters = () => {
    for (let index = 0; index < waiters.length; ) {
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
      closed(project);
      serveWaiters();
      throw error;
    }
  };

  const wait = (project: string, openSession: () => Promise<Session>): Promise<Session> => {
    if (waiters.length >= limits.waiting)
      throw errors.overloaded('Too many statements are waiting already.', 1);
    waking ??= setInterval(wakeLate, limits.waitMs / 50);
    return new Promise((resolve, reject) => {
      waiters.push({ project, since: performance.now(), openSession, resolve, reject });
    });
  };

  /** Those who came first wait longest. One timer for all: nearly nobody waits that long. */
  const wakeLate = () => {
    const before = performance.now() - limits.waitMs;
    while (waiters[0] && waiters[0].since < before) {
      waiters.shift()?.reject(errors.overloaded('No connection became free in time.', 1));
    }
    if (waiters.length === 0 && waking) {
      clearInterval(waking);
      waking = null;
    }
  };

  const sweep = setInterval(
    () => {
      const before = performance.now() - limits.idleMs;
      for (const [project, place] of places) {
        if (place.usedAt > before) continue;
        for (const session of place.idle.splice(0)) {
          session.close();
          closed(project);
        }
      }
    },
    Math.max(100, limits.idleMs / 4),
  ).unref();

  return {
    takeIdle: (project) => (ended ? null : takeIdle(project)),
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
      const place = placeOf(project);
      place.usedAt = performance.now();
      if (reusable && session.isUsable && !ended) place.idle.push(session);
      else {
        session.destroy();
        closed(project);
      }
      if (waiters.length > 0) serveWaiters();
    },
    counts: () => ({
      open,
      idle: [...places.values()].reduce((sum, place) => sum + place.idle.length, 0),
      waiting: waiters.length,
    }),
    end: async () => {
      ended = true;
      clearInterval(sweep);
      for (const [project, place] of places) {
        for (const session of place.idle.splice(0)) {
          session.close();
          closed(project);
        }
      }
      if (open > 0) {
        await new Promise<void>((resolve) => {
          onEmpty = resolve;
        });
      }
    },
  };
}
