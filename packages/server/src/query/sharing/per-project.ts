// One value for each project that has statements under way, and a periodic check of all of them.
import type { ProjectLogin } from '../../servers/databases/provision.ts';

export type PerProject<T> = {
  /** The project's value; made if there is none. */
  of(project: ProjectLogin): T;
  get(projectId: string): T | undefined;
};

/** `onEmpty` is called when none of the project's statements is under way any more. */
export function openPerProject<T extends { look(now: number): void }>(
  everyMs: number,
  make: (project: ProjectLogin, onEmpty: () => void) => T,
): PerProject<T> {
  const byProject = new Map<string, T>();
  let looking: NodeJS.Timeout | null = null;
  let lookedAt = 0;

  /** If this process is late, answers may lie unread in its sockets: that does not make a statement slow. */
  const look = () => {
    const now = performance.now();
    const lateMs = Math.max(0, now - lookedAt - everyMs);
    lookedAt = now;
    for (const entry of byProject.values()) entry.look(now - 2 * lateMs);
  };
  const remove = (projectId: string) => {
    byProject.delete(projectId);
    if (byProject.size > 0 || !looking) return;
    clearInterval(looking);
    looking = null;
  };

  return {
    of: (project) => {
      const known = byProject.get(project.id);
      if (known) return known;
      const entry = make(project, () => remove(project.id));
      byProject.set(project.id, entry);
      if (!looking) {
        lookedAt = performance.now();
        looking = setInterval(look, everyMs);
      }
      return entry;
    },
    get: (projectId) => byProject.get(projectId),
  };
}
