// Once a writer has come to its project's limit, the project's writers run one at a time. Side by side they would fill the
// disk with pages that none of them can keep, and leave no moment in which the space can be reclaimed.
import { errors } from '../errors/errors.ts';

export type WriterQueue = {
  /** A writer came to the limit: writers take turns until none has for `quietMs`. */
  close(projectId: string): void;
  /** The limit was changed. */
  open(projectId: string): void;
  isClosed(projectId: string): boolean;
  /** Waits for a turn; returns what ends it. */
  take(projectId: string): Promise<() => void>;
};

type Queue = { closedAt: number; isTaken: boolean; waiting: Set<() => void> };

/** The queue opens again after this time without a writer that came to the limit. */
const quietMs = 1_000;
/** A turn that takes longer no longer keeps the others waiting. */
const turnMs = 2_000;
const patienceMs = 20_000;

export function openWriterQueue(): WriterQueue {
  const queues = new Map<string, Queue>();

  const pass = (projectId: string, queue: Queue) => {
    queue.isTaken = false;
    const [next] = queue.waiting;
    if (performance.now() - queue.closedAt >= quietMs) open(projectId, queue);
    else if (next) next();
    else later(projectId, queue);
  };
  /** Lets everything that waits go on. */
  const open = (projectId: string, queue: Queue) => {
    if (queues.get(projectId) === queue) queues.delete(projectId);
    for (const go of [...queue.waiting]) go();
  };
  const later = (projectId: string, queue: Queue) => {
    const look = () => {
      if (queue.isTaken || queue.waiting.size > 0) return;
      if (performance.now() - queue.closedAt < quietMs) later(projectId, queue);
      else open(projectId, queue);
    };
    setTimeout(look, quietMs).unref();
  };
  const begin = (projectId: string, queue: Queue): (() => void) => {
    queue.isTaken = true;
    let isOver = false;
    const end = () => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      pass(projectId, queue);
    };
    const timer = setTimeout(end, turnMs);
    return end;
  };

  const close = (projectId: string): Queue => {
    const found = queues.get(projectId);
    const queue = found ?? { closedAt: 0, isTaken: false, waiting: new Set() };
    queue.closedAt = performance.now();
    if (!found) {
      queues.set(projectId, queue);
      later(projectId, queue);
    }
    return queue;
  };
  return {
    close,
    open: (projectId) => {
      const queue = queues.get(projectId);
      if (queue) open(projectId, queue);
    },
    isClosed: (projectId) => queues.has(projectId),
    take: (projectId) => {
      const queue = queues.get(projectId) ?? close(projectId);
      if (!queue.isTaken) return Promise.resolve(begin(projectId, queue));
      return new Promise((resolve, reject) => {
        const go = () => {
          queue.waiting.delete(go);
          clearTimeout(timer);
          resolve(begin(projectId, queue));
        };
        const giveUp = () => {
          queue.waiting.delete(go);
          reject(errors.overloaded('Too many writes are waiting for space in this project.', 1));
        };
        const timer = setTimeout(giveUp, patienceMs);
        queue.waiting.add(go);
      });
    },
  };
}
