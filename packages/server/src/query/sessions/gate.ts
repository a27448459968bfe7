// The gate lets the requests of a project wait while its database is copied or exchanged, here and in all other processes
// at the same time (control/holds.ts). A request that waits has not begun, so it sees a pause and no error.
import { errors } from '../../errors/errors.ts';

export type Gate = {
  isClosed(projectId: string): boolean;
  /** Resolves when the project's requests may go on: true; or after `waitMs`: false. */
  pass(projectId: string, waitMs?: number): Promise<boolean>;
  /** Closes it in this process. Returns what opens it again. */
  close(projectId: string): () => void;
  /** What the feed reports: the projects that another process holds, and those of this one. */
  follow(projectIds: ReadonlySet<string>): void;
};

/** How many requests of one project wait. They wait apart from the requests of other projects. */
const maxWaiting = 2_000;

/** `onClose`: the project's idle sessions must end, and no session that becomes idle may stay open. */
export function openGate(onClose: (projectId: string) => void): Gate {
  /** Closed by this process, which knows before the feed does, and by the feed. */
  const own = new Set<string>();
  let followed: ReadonlySet<string> = new Set();
  const waiting = new Map<string, (() => void)[]>();

  const isClosed = (projectId: string) =>
    (own.size > 0 && own.has(projectId)) || (followed.size > 0 && followed.has(projectId));
  const wake = () => {
    for (const [projectId, waiters] of waiting) {
      if (isClosed(projectId)) continue;
      waiting.delete(projectId);
      for (const resume of [...waiters]) resume();
    }
  };

  return {
    isClosed,
    pass: async (projectId, waitMs = Number.POSITIVE_INFINITY) => {
      const until = performance.now() + waitMs;
      while (isClosed(projectId)) {
        const waiters = waiting.get(projectId) ?? [];
        if (waiters.length >= maxWaiting) throw errors.overloaded('Too many statements are waiting.', 1);
        waiting.set(projectId, waiters);
        await waitAmong(waiters, until - performance.now());
        if (performance.now() >= until) return false;
      }
      return true;
    },
    close: (projectId) => {
      own.add(projectId);
      onClose(projectId);
      return () => {
        own.delete(projectId);
        wake();
      };
    },
    follow: (projectIds) => {
      const added = [...projectIds].filter((projectId) => !isClosed(projectId));
      followed = projectIds;
      for (const projectId of added) onClose(projectId);
      wake();
    },
  };
}

function waitAmong(waiters: (() => void)[], ms: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = ms === Number.POSITIVE_INFINITY ? undefined : setTimeout(done, Math.max(0, ms));
    waiters.push(done);
    function done() {
      clearTimeout(timer);
      const at = waiters.indexOf(done);
      if (at >= 0) waiters.splice(at, 1);
      resolve();
    }
  });
}
