// The sessions of one server: its pool, how a session is opened, and sessions outside the pool for look-ups.

import { errors } from '../../errors/errors.ts';
import { AccountSlots, type LeaveSlot } from '../../lib/account-slots.ts';
import { createSessionPool, type PoolLimits, type SessionPool } from '../../postgres/pool/session-pool.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { RefusedError, Session } from '../../postgres/wire/session.ts';
import { StandbyError } from '../../postgres/wire/session-errors.ts';
import { makeRoomForApi } from '../../quotas/direct/direct-room.ts';
import { isUserLogin, loginOf, type ProjectLogin } from '../../servers/databases/login.ts';
import { restoreLogin } from '../../servers/databases/roles.ts';
import { shortenNotifyQueue } from '../../servers/guards/notify-queue.ts';
import type { Server } from '../../servers/server.ts';
import { sessionSettings } from './session-settings.ts';

export type ServerSessions = {
  readonly pool: SessionPool;
  open(project: ProjectLogin): Promise<Session>;
  /** Runs `use` in a session outside the pool's limits. */
  aside<T>(poolKey: string, project: ProjectLogin, use: (session: Session) => Promise<T>): Promise<T>;
  limitReached(): void;
};

type Options = {
  ensureCurrent: (projectId: string) => Promise<void>;
  onOpened: (project: ProjectLogin, session: Session) => void;
};

const asideLimits = { all: 5, kept: 1, waiting: Number.POSITIVE_INFINITY };
type Aside = { session: Promise<Session>; users: number; leave: LeaveSlot };
const maxAttempts = 3;
const shortenAgainMs = 50;
/**
 * While PostgreSQL is unavailable or starting, one attempt per period is made, and all other requests get its result:
 * each attempt costs PostgreSQL a process, and hundreds per second make its recovery take several times as long.
 */
const outageMs = 200;

export function openServerSessions(
  server: Server,
  limits: PoolLimits,
  { ensureCurrent, onOpened }: Options,
): ServerSessions {
  const asides = new Map<string, Aside>();
  const asideSlots = new AccountSlots('look-ups', asideLimits);
  let shortenedAt = Number.NEGATIVE_INFINITY;
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
      session.yields = true;
      onOpened(project, session);
      return session;
    };
    try {
      return await start(project);
    } catch (error) {
      if (isFull(error, project)) return startAmongDirect(project, start);
      if (project.standby || !isRestorable(error, project)) throw noteOutage(error);
    }
    return start(await restoreLogin(server, project)).catch((error) => {
      throw noteOutage(error);
    });
  };

  /** Clients that connect again at once may take the place of those that were ended. */
  const startAmongDirect = async (
    project: ProjectLogin,
    start: (login: ProjectLogin) => Promise<Session>,
  ): Promise<Session> => {
    for (let attempt = 1; ; attempt++) {
      const surplus = await makeRoomForApi(server, project.id).catch(() => 0);
      try {
        return await start(project);
      } catch (error) {
        if (!isFull(error, project) || surplus === 0) throw noteOutage(error);
        if (attempt === maxAttempts) throw errors.noConnectionLeft(error);
      }
    }
  };

  /** A project's lookups share one session, so that a busy project leaves room for others. Without room they wait. */
  const joinAside = async (poolKey: string, project: ProjectLogin): Promise<Aside> => {
    let leave: LeaveSlot | null = null;
    if (!asides.has(poolKey) || asideSlots.waits > 0) leave = await asideSlots.acquire(project.accountId);
    const found = asides.get(poolKey);
    // Another look-up of the project was first.
    if (found) leave?.();
    const aside = found ?? { session: open(project), users: 0, leave: leave ?? (() => {}) };
    asides.set(poolKey, aside);
    aside.users++;
    return aside;
  };
  const leaveAside = (poolKey: string, aside: Aside): void => {
    if (--aside.users > 0) return;
    asides.delete(poolKey);
    aside.session.then(
      (session) => session.close(),
      () => {},
    );
    aside.leave();
  };

  return {
    pool: createSessionPool(limits),
    open,
    aside: async (poolKey, project, use) => {
      const aside = await joinAside(poolKey, project);
      try {
        return await use(await aside.session);
      } finally {
        leaveAside(poolKey, aside);
      }
    },
    limitReached: () => {
      const now = performance.now();
      if (now - shortenedAt < shortenAgainMs) return;
      shortenedAt = now;
      shortenNotifyQueue(server).catch(() => {});
    },
  };
}

/** No process listens, or PostgreSQL starts, stops or is a standby. One project cannot cause this for the others. */
function isOutage(error: unknown): boolean {
  if (error instanceof StandbyError) return true;
  if (error instanceof RefusedError) return error.sqlstate === sqlstate.cannotConnectNow;
  return ['ECONNREFUSED', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '');
}

/** The role of the project has all connections that it may have, or PostgreSQL itself has. */
function isFull(error: unknown, { standby, loginAs }: ProjectLogin): boolean {
  if (standby || loginAs !== undefined || !(error instanceof RefusedError)) return false;
  return error.sqlstate === sqlstate.tooManyConnections;
}

/** If the service died while it created an end users' role, that role may not have the right to connect yet. */
function isRestorable(error: unknown, { loginAs }: ProjectLogin): boolean {
  if (!(error instanceof RefusedError)) return false;
  const lacksConnect = isUserLogin(loginAs) && error.sqlstate === sqlstate.insufficientPrivilege;
  return lacksConnect || error.sqlstate === sqlstate.invalidPassword;
}
