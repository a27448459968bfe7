// How many connections can be open. The last quarter is for projects with few of them, so that three projects that use all
// they may have do not lock out the others.
import type { Leave } from './limits.ts';

export type Room = {
  has(project: string): boolean;
  /** Counts a connection that has logged in. */
  enter(project: string): Leave;
};

export function openRoom(max: number): Room {
  const byProject = new Map<string, number>();
  const few = Math.max(1, Math.floor(max / 20));
  let all = 0;
  return {
    has: (project) => all < max && (all < max * 0.75 || (byProject.get(project) ?? 0) < few),
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
