// The pool of project sessions: a budget for those in use, a share for each project, and a bounded queue with a deadline.
// Accounts that want sessions at the same time share fairly: a free one goes to the account that uses the fewest, and the last
// ones of the budget only to accounts that use hardly any. Likewise the callers of a project (caller-shares.ts).
// Opening a session costs a hundred times as much as a short statement, so idle sessions stay open while memory allows. Those that
// have grown are closed soon: a new one needs less than half of their memory.
// At the limit, the project that has been idle longest loses one.
import { errors } from '../../errors/errors.ts';
import type { Session } from '../wire/session.ts';
import { allCallers, CallerShares, keptOf } from './caller-shares.ts';
import { type Line, type Lines, openWaiters } from './session-waiters.ts';

export type SessionPool = {
  /**
   * A session for one request. Throws 429 if none becomes free in time. `account`: whose share it uses. Null: the service. `caller`: who
   * of those that use the project.
   */
  acquire(
    project: string,
    open: () => Promise<Session>,
    account?: string | null,
    caller?: string,
  ): Promise<Session>;
  /** Opens a session for the next `acquire` of the project, if the project has none. */
  warm(project: string, how: Warming): void;
  /** An open idle session, or null. */
  takeIdle(project: string, isFit?: (session: Session) => boolean, caller?: string): Session | null;
  /** Whether other projects wait for a session. */
  isWanted(project: string): boolean;
  /** Returns a session to the pool. One that is not reusable is closed. */
  release(project: string, session: Session, reusable: boolean): void;
  /** The project's sessions, used and idle, use none of the statements again that they keep prepared. */
  outdate(project: string): void;
  /** Closes the project's idle sessions. */
  drop(project: string): void;
  /** Rejects those who wait for a session of the project. */
  turnAway(project: string, error: Error): void;
  counts(): { open: number; idle: number; waiting: number };
  /** The backends of the project's sessions, used and idle. */
  pids(project: string): number[];
  end(): Promise<void>;
};

/** `isReusable`: asked when the session is open, if nobody has acquired it by then. */
export type Warming = { open: () => Promise<Session>; account: string | null; isReusable: () => boolean };

/** `budget`: sessions in use at a time. `maxOpen`: open sessions, used and idle; at least `budget`. */
export type PoolLimits = {
  budget: number;
  maxOpen: number;
  share: number;
  waiting: number;
  waitMs: number;
  idleMs: number;
};

/**
 * `turn`: its last one in the queue. Not AccountTurns: every statement counts here, so that counts are fields instead of look-ups by
 * name, and only turns of those who waited matter.
 */
type AccountPool = Lines & { used: number; usedAt: number; turn: number };
/** `warming`: being opened for `by`, who is nobody yet. */
type ProjectPool = {
  idle: Session[];
  open: number;
  /** Used and idle ones. */
  sessions: Set<Session>;
  usedAt: number;
  account: AccountPool;
  callers: CallerShares;
  warming: { session: Promise<Session>; by: Opener } | null;
};
/** Whose session is being opened. */
type Opener = { caller: string };
const isAny = () => true;
/** So long after its last request, an account no longer counts as one that may want a session. */
const accountMs = 60 * 60_000;
/** What the service does by itself in projects. */
const ownWork = '';

export function createSessionPool(limits: PoolLimits): SessionPool {
  /** Least recently used first. */
  const pools = new Map<string, ProjectPool>();
  const accounts = new Map<string, AccountPool>();
  const waiters = openWaiters<AccountPool>(limits);
  let turns = 0;
  let open = 0;
  let used = 0;
  let ended = false;
  let onEmpty: (() => void) | null = null;

  const accountOf = (name: string): AccountPool => {
    const found = accounts.get(name);
    if (found) return found;
    const account = { used: 0, usedAt: performance.now(), lines: new Map(), waiting: 0, turn: 0 };
    accounts.set(name, account);
    return account;
  };

  /** The service may have opened the project's first sessions: they count as the account's once it sends a request. */
  const accountFor = (project: string, name: string | null): AccountPool => {
    const pool = pools.get(project);
    if (!pool || name === null) return pool?.account ?? accountOf(name ?? ownWork);
    const account = accountOf(name);
    if (pool.account === account) return account;
    const inUse = pool.open - pool.idle.length;
    pool.account.used -= inUse;
    account.used += inUse;
    pool.account = account;
    return account;
  };

  /** Kept back while there are several accounts, for those that use fewer than `few`. */
  const reserved = Math.floor(limits.budget / 8);
  const few = Math.max(1, Math.floor(reserved / 4));
  const mayUse = (account: AccountPool): boolean =>
    used < limits.budget && (used < limits.budget - reserved || account.used < few || !hasSeveral());
  const kept = keptOf(limits.share);
  const isShareOf = (pool: ProjectPool, caller: string): boolean =>
    pool.open - pool.idle.length < limits.share - kept || pool.callers.usedBy(caller) === 0;
  const hasSeveral = () => accounts.size > (accounts.has(ownWork) ? 2 : 1);

  const noteClosed = (project: string, session: Session | null) => {
    const pool = pools.get(project);
    if (!pool) return;
    if (session) pool.sessions.delete(session);
    pool.open--;
    open--;
    if (pool.open === 0) pools.delete(project);
    if (open === 0) onEmpty?.();
  };

  const takeIdle = (
    project: string,
    isFit: (session: Session) => boolean = isAny,
    caller = allCallers,
  ): Session | null => {
    const pool = used < limits.budget ? pools.get(project) : undefined;
    while (pool && mayUse(pool.account) && isShareOf(pool, caller)) {
      const at = pool.idle.findLastIndex((session) => !session.isUsable || isFit(session));
      const [session] = at < 0 ? [] : pool.idle.splice(at, 1);
      if (!session) return null;
      if (session.isUsable) {
        used++;
        pool.account.used++;
        pool.callers.begin(caller);
        pool.callers.give(session, caller);
        return session;
      }
      noteClosed(project, session);
    }
    return null;
  };

  /** Makes room by closing the session that has been idle longest. */
  const closeLongestIdle = (): boolean => {
    for (const [project, pool] of pools) {
      if (pool.idle.length === 0) continue;
      const session = pool.idle.shift() as Session;
      session.close();
      noteClosed(project, session);
      return true;
    }
    return false;
  };

  const mayOpen = (project: string, account: AccountPool, caller: string): boolean => {
    if (!mayUse(account)) return false;
    const pool = pools.get(project);
    if (pool && !(pool.open < limits.share && isShareOf(pool, caller))) return false;
    return open < limits.maxOpen || closeLongestIdle();
  };

  const reserve = (project: string, account: AccountPool, caller: string): ProjectPool => {
    const none = { idle: [], open: 0, sessions: new Set<Session>(), usedAt: 0, account, warming: null };
    const pool = pools.get(project) ?? { ...none, callers: new CallerShares() };
    pools.set(project, pool);
    pool.open++;
    pool.account.used++;
    pool.callers.begin(caller);
    open++;
    used++;
    return pool;
  };

  /** Serves every waiter for whom there is room now: those of the account that uses the fewest sessions first. */
  const serveWaiters = () => {
    const left = new Set(waiters.queued);
    while (left.size > 0 && used < limits.budget) {
      const next = leastUsed(left);
      if (!serveOne(next) || next.waiting === 0) left.delete(next);
    }
  };

  /** First the caller that uses the fewest sessions, of those whose project may have another one. */
  const serveOne = (account: AccountPool): boolean => {
    const passed = new Set<Line>();
    for (;;) {
      const line = shortest(account, passed);
      if (!line) return false;
      const { project, caller } = line;
      const idle = takeIdle(project, isAny, caller);
      if (!idle && !mayOpen(project, account, caller)) {
        passed.add(line);
        continue;
      }
      const { openSession, resolve } = waiters.take(account, line);
      account.turn = ++turns;
      if (idle) resolve(idle);
      else {
        reserve(project, account, caller);
        resolve(openNow(project, openSession, { caller }));
      }
      return true;
    }
  };

  const shortest = ({ lines }: AccountPool, passed: ReadonlySet<Line>): Line | null => {
    let best: Line | null = null;
    let fewest = Number.POSITIVE_INFINITY;
    for (const line of lines.values()) {
      if (passed.has(line)) continue;
      const own = pools.get(line.project)?.callers.usedBy(line.caller) ?? 0;
      if (own === 0) return line;
      const isFirst = own === fewest && best !== null && since(line) < since(best);
      if (own > fewest || (own === fewest && !isFirst)) continue;
      best = line;
      fewest = own;
    }
    return best;
  };

  const openNow = async (
    project: string,
    openSession: () => Promise<Session>,
    by: Opener,
  ): Promise<Session> => {
    try {
      const session = await openSession();
      const pool = pools.get(project);
      pool?.sessions.add(session);
      pool?.callers.give(session, by.caller);
      return session;
    } catch (error) {
      used--;
      const pool = pools.get(project);
      if (pool) pool.account.used--;
      pool?.callers.end(by.caller);
      noteClosed(project, null);
      serveWaiters();
      throw error;
    }
  };

  const release = (project: string, session: Session, reusable: boolean) => {
    const pool = pools.get(project);
    if (!pool) throw new Error('A session was given back that is not of this pool.');
    pool.usedAt = performance.now();
    pool.account.usedAt = pool.usedAt;
    pools.delete(project);
    pools.set(project, pool);
    used--;
    pool.account.used--;
    pool.callers.takeBack(session);
    if (reusable && session.isUsable && !ended) pool.idle.push(session);
    else {
      session.destroy();
      noteClosed(project, session);
    }
    if (waiters.count() > 0) serveWaiters();
  };

  const warm = (project: string, { open: openSession, account: name, isReusable }: Warming) => {
    if (ended || pools.has(project)) return;
    const account = accountFor(project, name);
    if (!mayOpen(project, account, allCallers)) return;
    const pool = reserve(project, account, allCallers);
    const by = { caller: allCallers };
    const session = openNow(project, openSession, by);
    const warming = { session, by };
    pool.warming = warming;
    const leave = () => {
      if (pool.warming !== warming) return false;
      pool.warming = null;
      return true;
    };
    // Whoever has acquired it gets the error. Otherwise the next request finds out by itself.
    session.then((opened) => leave() && release(project, opened, isReusable()), leave);
  };

  const claimWarm = (project: string, caller: string): Promise<Session> | null => {
    const pool = pools.get(project);
    if (!pool?.warming) return null;
    const { session, by } = pool.warming;
    pool.warming = null;
    pool.callers.end(by.caller);
    pool.callers.begin(caller);
    by.caller = caller;
    return session;
  };

  const closeIdle = (
    project: string,
    pool: ProjectPool,
    isEnding: (session: Session, at: number) => boolean,
  ) => {
    const staying: Session[] = [];
    for (const [at, session] of pool.idle.splice(0).entries()) {
      if (!isEnding(session, at)) {
        staying.push(session);
        continue;
      }
      session.close();
      noteClosed(project, session);
    }
    pool.idle.push(...staying);
  };

  const hasSessions = (account: AccountPool): boolean => {
    for (const pool of pools.values()) if (pool.account === account) return true;
    return false;
  };

  const sweepMs = Math.min(10_000, Math.max(100, limits.idleMs / 4));
  const sweep = setInterval(() => {
    const now = performance.now();
    for (const [project, pool] of pools) {
      if (pool.usedAt < now - limits.idleMs) closeIdle(project, pool, isAny);
      else if (pool.usedAt < now - sweepMs) {
        closeIdle(project, pool, ({ hasGrown }) => hasGrown);
        // Beyond the budget, a project keeps one idle session for its next request, not all that a burst has opened.
        if (open > limits.budget) closeIdle(project, pool, (_session, at) => at > 0);
      }
    }
    for (const [name, account] of accounts) {
      const isIdle = account.used === 0 && account.waiting === 0 && account.usedAt < now - accountMs;
      if (isIdle && !hasSessions(account)) accounts.delete(name);
    }
  }, sweepMs).unref();

  return {
    warm,
    takeIdle: (project, isFit, caller) => (ended ? null : takeIdle(project, isFit, caller)),
    isWanted: waiters.isWanted,
    acquire: async (project, openSession, name = null, caller = allCallers) => {
      if (ended) throw errors.unavailable('stopping');
      const account = accountFor(project, name);
      const ready = takeIdle(project, isAny, caller) ?? claimWarm(project, caller);
      if (ready) return ready;
      if (!mayOpen(project, account, caller)) return waiters.join(account, project, caller, openSession);
      reserve(project, account, caller);
      return openNow(project, openSession, { caller });
    },
    release,
    outdate: (project) => {
      for (const session of pools.get(project)?.sessions ?? []) session.statements.outdate();
    },
    drop: (project) => {
      const pool = pools.get(project);
      if (pool) closeIdle(project, pool, isAny);
    },
    turnAway: waiters.turnAway,
    counts: () => ({
      open,
      idle: open - used,
      waiting: waiters.count(),
    }),
    pids: (project) => [...(pools.get(project)?.sessions ?? [])].map(({ pid }) => pid),
    end: async () => {
      ended = true;
      clearInterval(sweep);
      for (const [project, pool] of pools) closeIdle(project, pool, isAny);
      if (open > 0) {
        await new Promise<void>((resolve) => {
          onEmpty = resolve;
        });
      }
    },
  };
}

function since({ waiters: [first] }: Line): number {
  return first?.since ?? 0;
}

function leastUsed(accounts: ReadonlySet<AccountPool>): AccountPool {
  let least: AccountPool | null = null;
  for (const account of accounts) {
    const isFewer = least === null || account.used < least.used;
    const isEarlier = least?.used === account.used && account.turn < least.turn;
    if (isFewer || isEarlier) least = account;
  }
  return least as AccountPool;
}
