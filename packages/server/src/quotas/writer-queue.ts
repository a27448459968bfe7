// One at a time: how a project's writers go on once one of them came to the limit. Side by side they would fill the disk with
// what none of them can keep, and leave nobody a moment in which it is given back.
import { errors } from '../errors.ts';

export type Turns = {
  /** Something came to the limit: from now on, and until nothing has for a while, writers take turns. */
  close(projectId: string): void;
  /** There is another limit. */
  open(projectId: string): void;
  isClosed(projectId: string): boolean;
  /** Waits for a turn; gives what ends it. */
  take(projectId: string): Promise<() => void>;
};

type Door = { closedAt: number; isTaken: boolean; waiting: Set<() => void> };

/** As long as nothing comes to the limit, the door opens again after this. */
const quietMs = 1_000;
/** Whoever takes longer is no longer waited for. */
const turnMs = 2_000;
const patienceMs = 20_000;

export function openTurns(): Turns {
  const doors = new Map<string, Door>();

  const pass = (projectId: string, door: Door) => {
    door.isTaken = false;
    const [next] = door.waiting;
    if (performance.now() - door.closedAt >= quietMs) open(projectId, door);
    else if (next) next();
    else later(projectId, door);
  };
  /** For everybody who waits. */
  const open = (projectId: string, door: Door) => {
    if (doors.get(projectId) === door) doors.delete(projectId);
    for (const go of [...door.waiting]) go();
  };
  const later = (projectId: string, door: Door) => {
    const look = () => {
      if (door.isTaken || door.waiting.size > 0) return;
      if (performance.now() - door.closedAt < quietMs) later(projectId, door);
      else open(projectId, door);
    };
    setTimeout(look, quietMs).unref();
  };
  const begin = (projectId: string, door: Door): (() => void) => {
    door.isTaken = true;
    let isOver = false;
    const end = () => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      pass(projectId, door);
    };
    const timer = setTimeout(end, turnMs);
    return end;
  };

  const close = (projectId: string): Door => {
    const found = doors.get(projectId);
    const door = found ?? { closedAt: 0, isTaken: false, waiting: new Set() };
    door.closedAt = performance.now();
    if (!found) {
      doors.set(projectId, door);
      later(projectId, door);
    }
    return door;
  };
  return {
    close,
    open: (projectId) => {
      const door = doors.get(projectId);
      if (door) open(projectId, door);
    },
    isClosed: (projectId) => doors.has(projectId),
    take: (projectId) => {
      const door = doors.get(projectId) ?? close(projectId);
      if (!door.isTaken) return Promise.resolve(begin(projectId, door));
      return new Promise((resolve, reject) => {
        const go = () => {
          door.waiting.delete(go);
          clearTimeout(timer);
          resolve(begin(projectId, door));
        };
        const giveUp = () => {
          door.waiting.delete(go);
          reject(errors.overloaded('Too many writes wait for room in this project.', 1));
        };
        const timer = setTimeout(giveUp, patienceMs);
        door.waiting.add(go);
      });
    },
  };
}
