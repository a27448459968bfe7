// Those who wait for a session. Accounts take turns, and within an account its callers do: each caller of a project (a key, or a user of
// the project) has a line of its own, in order of arrival. The number of waiters is bounded, and so is the time.
import { errors } from '../../errors/errors.ts';
import type { Session } from '../wire/session.ts';

export type Waiter = {
  since: number;
  openSession: () => Promise<Session>;
  resolve: (session: Session | Promise<Session>) => void;
  reject: (error: Error) => void;
};
export type Line = { readonly project: string; readonly caller: string; readonly waiters: Waiter[] };
/** `lines`: whoever was served last is the last. */
export type Lines = { readonly lines: Map<string, Line>; waiting: number };

export type Waiters<Account extends Lines> = {
  /** The accounts that wait. */
  readonly queued: ReadonlySet<Account>;
  count(): number;
  /** Rejects when there is no session in time, or when the queue is full and this caller has most in it. */
  join(
    account: Account,
    project: string,
    caller: string,
    openSession: Waiter['openSession'],
  ): Promise<Session>;
  /** The first one, who is served now. Then it is the turn of other lines. */
  take(account: Account, line: Line): Waiter;
  isWanted(project: string): boolean;
  turnAway(project: string, error: Error): void;
};

export function openWaiters<Account extends Lines>(limits: {
  waiting: number;
  waitMs: number;
}): Waiters<Account> {
  const queued = new Set<Account>();
  let count = 0;
  let lateTimer: NodeJS.Timeout | null = null;

  const noteLeft = (account: Account, line: Line, left: number) => {
    count -= left;
    account.waiting -= left;
    if (line.waiters.length === 0) account.lines.delete(nameOf(line.project, line.caller));
    if (account.waiting === 0) queued.delete(account);
  };

  /** The queue is full: whoever came last goes, of the account with the most waiters, and there of the caller with the most. */
  const makeRoomFor = (account: Account, own: number) => {
    let most: Account = account;
    for (const other of queued) {
      if (other.waiting > Math.max(most.waiting, account.waiting + 1)) most = other;
    }
    let longest: Line | null = null;
    for (const line of most.lines.values()) {
      const least = longest?.waiters.length ?? (most === account ? own + 1 : 0);
      if (line.waiters.length > least) longest = line;
    }
    const tooMany = errors.overloaded('Too many statements are waiting.', 1);
    if (!longest) throw tooMany;
    longest.waiters.pop()?.reject(tooMany);
    noteLeft(most, longest, 1);
  };

  /** One timer serves all, because hardly any waits that long. */
  const rejectLate = () => {
    const before = performance.now() - limits.waitMs;
    for (const account of queued)
      for (const line of account.lines.values()) {
        while (line.waiters[0] && line.waiters[0].since < before) {
          line.waiters.shift()?.reject(errors.overloaded('No database connection became free in time.', 1));
          noteLeft(account, line, 1);
        }
      }
    if (count === 0 && lateTimer) {
      clearInterval(lateTimer);
      lateTimer = null;
    }
  };

  return {
    queued,
    count: () => count,
    join: (account, project, caller, openSession) => {
      const name = nameOf(project, caller);
      if (count >= limits.waiting) makeRoomFor(account, account.lines.get(name)?.waiters.length ?? 0);
      lateTimer ??= setInterval(rejectLate, limits.waitMs / 50);
      return new Promise((resolve, reject) => {
        const line = account.lines.get(name) ?? { project, caller, waiters: [] };
        account.lines.set(name, line);
        line.waiters.push({ since: performance.now(), openSession, resolve, reject });
        count++;
        account.waiting++;
        queued.add(account);
      });
    },
    take: (account, line) => {
      const waiter = line.waiters.shift() as Waiter;
      noteLeft(account, line, 1);
      if (line.waiters.length === 0) return waiter;
      const name = nameOf(line.project, line.caller);
      account.lines.delete(name);
      account.lines.set(name, line);
      return waiter;
    },
    isWanted: (project) => {
      if (count === 0) return false;
      for (const { lines } of queued)
        for (const line of lines.values()) if (line.project !== project) return true;
      return false;
    },
    turnAway: (project, error) => {
      for (const account of queued)
        for (const line of account.lines.values()) {
          if (line.project !== project) continue;
          const left = line.waiters.splice(0);
          for (const { reject } of left) reject(error);
          noteLeft(account, line, left.length);
        }
    },
  };
}

function nameOf(project: string, caller: string): string {
  return `${project}\n${caller}`;
}
