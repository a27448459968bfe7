// One operation at a time for each project, in this process: a project that sends many at once waits for itself, and leaves the
// few connections to the control database to others.
import { errors } from '../../errors/errors.ts';

export type InTurn = <T>(projectId: string, act: () => Promise<T>) => Promise<T>;

const maxWaiting = 50;

export function openInTurn(): InTurn {
  const lines = new Map<string, { count: number; last: Promise<unknown> }>();
  return async (projectId, act) => {
    const line = lines.get(projectId) ?? { count: 0, last: Promise.resolve() };
    if (line.count >= maxWaiting)
      throw errors.overloaded('Too many requests for the saved queries of the project are waiting.', 1);
    line.count++;
    lines.set(projectId, line);
    const mine = line.last.then(act);
    line.last = mine.catch(() => {});
    try {
      return await mine;
    } finally {
      line.count--;
      if (line.count === 0) lines.delete(projectId);
    }
  };
}
