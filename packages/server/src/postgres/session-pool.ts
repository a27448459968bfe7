// The pool of project sessions: a budget for those in use, a share for each project, and a bounded queue with a deadline.
// Accounts that want sessions at the same time share fairly: a free one goes to the account that uses the fewest, and the last
// ones of the budget only to accounts that use hardly any.
// Opening a session costs a hundred times as much as a short statement, so idle sessions stay open while memory allows. Those that
// have grown are closed soon: a new one needs less than half of their memory.
// At the limit, the project that has been idle longest loses one.
import { errors } from '../errors.ts';
import type { Session } from './session.ts';

export type SessionPool = {
  /** A session for one request. Throws 429 if none becomes free in time. `account`: whose share it uses. Null: the service. */
  acquire(project: string, open: () => Promise<Session>, account?: string | null): Promise<Session>;
  /** Opens a session for the next `acquire` of the project, if the project has none. */
  warm(project: string, how: Warming): void;
  /** An open idle session, or null. */
  takeIdle(project: string, isFit?: (session: Session) => boolean): Session | null;
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

type Waiter = {
  project: string;
  since: number;
  openSession: () => Promise<Session>;
  resolve: (session: Session | Promise<Session>) => void;
  reject: (error: Error) => void;
};
/**
 * `waiters`: in order of arrival. `turn`: its last one in the queue. Not AccountTurns: every statement counts here, so that counts
 * are fields instead of look-ups by name, and only turns of those who waited matter.
 */
type AccountPool = { used: number; usedAt: number; waiters: Waiter[]; turn: number };
/** `warming`: being opened, and not acquired yet. */
type ProjectPool = {
  idle: Session[];
  open: number;
  /** Used and idle ones. */
  sessions: Set<Session>;
  usedAt: number;
  account: AccountPool;
  warming: Promise<Session> | null;
};
const isAny = () => true;
/** So long after its last request, an account no longer counts as one that may want a session. */
const accountMs = 60 * 60_000;
/** What the service does by itself in projects. */
const ownWork = '';

export function createSessionPool(limits: PoolLimits): SessionPool {
  /** Least recently used first. */
  const pools = new Map<string, ProjectPool>();
  const accounts = new Map<string, AccountPool>();
  const queued = new Set<AccountPool>();
  let waiting = 0;
  let turns = 0;
  let open = 0;
  let used = 0;
  let ended = false;
  let lateTimer: NodeJS.Timeout | null = null;
  let onEmpty: (() => void) | null = null;

  const accountOf = (name: string): AccountPool => {
    const found = accounts.get(name);
    if (found) return found;
    const account = { used: 0, usedAt: performance.now(), waiters: [], turn: 0 };
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

  const takeIdle = (project: string, isFit: (session: Session) => boolean = isAny): Session | null => {
    const pool = used < limits.budget ? pools.get(project) : undefined;
    while (pool && mayUse(pool.account)) {
      const at = pool.idle.findLastIndex((session) => !session.isUsable || isFit(session));
      const [session] = at < 0 ? [] : pool.idle.splice(at, 1);
      if (!session) return null;
      if (session.isUsable) {
        used++;
        pool.account.used++;
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

  const mayOpen = (project: string, account: AccountPool): boolean =>
    mayUse(account) &&
    (pools.get(project)?.open ?? 0) < limits.share &&
    (open < limits.maxOpen || closeLongestIdle());

  const reserve = (project: string, account: AccountPool): ProjectPool => {
    const none = { idle: [], open: 0, sessions: new Set<Session>(), usedAt: 0, account, warming: null };
    const pool = pools.get(project) ?? none;
    pools.set(project, pool);
    pool.open++;
    pool.account.used++;
    open++;
    used++;
    return pool;
  };

  /** Serves every waiter for whom there is room now: those of the account that uses the fewest sessions first. */
  const serveWaiters = () => {
    const left = new Set(queued);
    while (left.size > 0 && used < limits.budget) {
      const next = leastUsed(left);
      if (!serveOne(next) || next.waiters.length === 0) left.delete(next);
    }
  };

  const noteLeft = (account: AccountPool) => {
    waiting--;
    if (account.waiters.length === 0) queued.delete(account);
  };

  /** First come, first served, of those whose project may have another session. */
  const serveOne = (account: AccountPool): boolean => {
    const { waiters } = account;
    for (let index = 0; index < waiters.length; index++) {
      const { project, openSession, resolve } = waiters[index] as Waiter;
      const idle = takeIdle(project);
      if (!idle && !mayOpen(project, account)) continue;
      waiters.splice(index, 1);
      noteLeft(account);
      account.turn = ++turns;
      if (idle) resolve(idle);
      else {
        reserve(project, account);
        resolve(openNow(project, openSession));
      }
      return true;
    }
    return false;
  };

  const openNow = async (project: string, openSession: () => Promise<Session>): Promise<Session> => {
    try {
      const session = await openSession();
      pools.get(project)?.sessions.add(session);
      return session;
    } catch (error) {
      used--;
      const account = pools.get(project)?.account;
      if (account) account.used--;
      noteClosed(project, null);
      serveWaiters();
      throw error;
    }
  };

  const wait = (
    project: string,
    account: AccountPool,
    openSession: () => Promise<Session>,
  ): Promise<Session> => {
    if (waiting >= limits.waiting) makeRoomFor(account);
    lateTimer ??= setInterval(rejectLate, limits.waitMs / 50);
    return new Promise((resolve, reject) => {
      waiting++;
      queued.add(account);
      account.waiters.push({ project, since: performance.now(), openSession, resolve, reject });
    });
  };

  /** The queue is full: whoever came last of the account with the most waiters goes, unless it is this account. */
  const makeRoomFor = (account: AccountPool) => {
    let most = account;
    for (const other of queued) {
      if (other.waiters.length > Math.max(most.waiters.length, account.waiters.length + 1)) most = other;
    }
    const tooMany = errors.overloaded('Too many statements are waiting.', 1);
    if (most === account) throw tooMany;
    most.waiters.pop()?.reject(tooMany);
    noteLeft(most);
  };

  /** Each queue is in order of arrival. One timer serves all waiters, because hardly any waits that long. */
  const rejectLate = () => {
    const before = performance.now() - limits.waitMs;
    for (const account of queued) {
      while (account.waiters[0] && account.waiters[0].since < before) {
        account.waiters.shift()?.reject(errors.overloaded('No database connection became free in time.', 1));
        noteLeft(account);
      }
    }
    if (waiting === 0 && lateTimer) {
      clearInterval(lateTimer);
      lateTimer = null;
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
    if (reusable && session.isUsable && !ended) pool.idle.push(session);
    else {
      session.destroy();
      noteClosed(project, session);
    }
    if (waiting > 0) serveWaiters();
  };

  const warm = (project: string, { open: openSession, account: name, isReusable }: Warming) => {
    if (ended || pools.has(project)) return;
    const account = accountFor(project, name);
    if (!mayOpen(project, account)) return;
    const pool = reserve(project, account);
    const warming = openNow(project, openSession);
    pool.warming = warming;
    const leave = () => {
      if (pool.warming !== warming) return false;
      pool.warming = null;
      return true;
    };
    // Whoever has acquired it gets the error. Otherwise the next request finds out by itself.
    warming.then((session) => leave() && release(project, session, isReusable()), leave);
  };

  const claimWarm = (project: string): Promise<Session> | null => {
    const pool = pools.get(project);
    const warming = pool?.warming ?? null;
    if (pool) pool.warming = null;
    return warming;
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
      const isIdle = account.used === 0 && account.waiters.length === 0 && account.usedAt < now - accountMs;
      if (isIdle && !hasSessions(account)) accounts.delete(name);
    }
  }, sweepMs).unref();

  return {
    warm,
    takeIdle: (project, isFit) => (ended ? null : takeIdle(project, isFit)),
    isWanted: (project) => {
      if (waiting === 0) return false;
      for (const { waiters } of queued) if (waiters.some((waiter) => waiter.project !== project)) return true;
      return false;
    },
    acquire: async (project, openSession, name = null) => {
      if (ended) throw errors.unavailable('stopping');
      const account = accountFor(project, name);
      const ready = takeIdle(project) ?? claimWarm(project);
      if (ready) return ready;
      if (!mayOpen(project, account)) return wait(project, account, openSession);
      reserve(project, account);
      return openNow(project, openSession);
    },
    release,
    outdate: (project) => {
      for (const session of pools.get(project)?.sessions ?? []) session.statements.outdate();
    },
    drop: (project) => {
      const pool = pools.get(project);
      if (pool) closeIdle(project, pool, isAny);
    },
    turnAway: (project, error) => {
      for (const account of queued) {
        const { waiters } = account;
        for (let index = waiters.length - 1; index >= 0; index--) {
          if (waiters[index]?.project !== project) continue;
          waiters.splice(index, 1)[0]?.reject(error);
          noteLeft(account);
        }
      }
    },
    counts: () => ({
      open,
      idle: open - used,
      waiting,
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

function leastUsed(accounts: ReadonlySet<AccountPool>): AccountPool {
  let least: AccountPool | null = null;
  for (const account of accounts) {
    const isFewer = least === null || account.used < least.used;
    const isEarlier = least?.used === account.used && account.turn < least.turn;
    if (isFewer || isEarlier) least = account;
  }
  return least as AccountPool;
}
