// One value for each project and login that has statements under way, and a periodic check of all of them.
import type { ProjectLogin } from '../../servers/databases/login.ts';
import { loginKeyOf, loginKeysOf } from '../sessions/login-keys.ts';

export type PerProject<T> = {
  /** The value of the project and its login; made if there is none. */
  of(project: ProjectLogin): T;
  /** Those of all logins of the project. */
  all(projectId: string): T[];
};

/** `onEmpty` is called when none of the login's statements is under way any more. */
export function openPerProject<T extends { look(now: number): void }>(
  everyMs: number,
  make: (project: ProjectLogin, onEmpty: () => void) => T,
): PerProject<T> {
  const byLogin = new Map<string, T>();
  let looking: NodeJS.Timeout | null = null;
  let lookedAt = 0;

  /** If this process is late, answers may lie unread in its sockets: that does not make a statement slow. */
  const look = () => {
    const now = performance.now();
    const lateMs = Math.max(0, now - lookedAt - everyMs);
    lookedAt = now;
    for (const entry of byLogin.values()) entry.look(now - 2 * lateMs);
  };
  const remove = (key: string) => {
    byLogin.delete(key);
    if (byLogin.size > 0 || !looking) return;
    clearInterval(looking);
    looking = null;
  };

  return {
    of: (project) => {
      const key = loginKeyOf(project);
      const known = byLogin.get(key);
      if (known) return known;
      const entry = make(project, () => remove(key));
      byLogin.set(key, entry);
      if (!looking) {
        lookedAt = performance.now();
        looking = setInterval(look, everyMs);
      }
      return entry;
    },
    all: (projectId) => loginKeysOf(projectId).flatMap((key) => byLogin.get(key) ?? []),
  };
}
