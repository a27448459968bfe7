// How many connections can be open. The last quarter is for projects with few of them, so that three projects that use all
// they may have do not lock out the others.
import type { Leave } from './limits.ts';

export type Room = {
  /** `project`: it has all that it may have. `all`: there is none left for it. */
  isFull(project: string): 'project' | 'all' | false;
  /** Counts a connection that has logged in. */
  enter(project: string): Leave;
};

export function openRoom(max: number, maxOfProject: number): Room {
  const byProject = new Map<string, number>();
  const few = Math.max(1, Math.floor(max / 20));
  let all = 0;
  return {
    isFull: (project) => {
      const own = byProject.get(project) ?? 0;
      if (own >= maxOfProject) return 'project';
      return all < max && (all < max * 0.75 || own < few) ? false : 'all';
    },
    enter: (project) => {
      all++;
      byProject.set(project, (byProject.get(project) ?? 0) + 1);
      return () => {
        all--;
        const rest = (byProject.get(project) ?? 1) - 1;
        if (rest > 0) byProject.set(project, rest);
        else byProject.delete(project);
      };
    },
  };
}
