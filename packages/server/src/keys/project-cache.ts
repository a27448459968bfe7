// What was looked up of projects and is kept in memory, for as long as the feed of changes says nothing else.
import { LRUCache } from 'lru-cache';
import type { Change } from '../control/changes.ts';

export type ProjectCache<T> = {
  of(projectId: string): Promise<T>;
  /** `isAbout`: a change that names no project can be about this all the same. */
  forget(change: Change, isAbout?: (kept: NonNullable<T>) => boolean): void;
};

type Options = {
  max: number;
  /** May what is kept in memory be used now? */
  isFresh: () => boolean;
};

/** What `look` does not find (null) is looked for again. */
export function openProjectCache<T>(
  { max, isFresh }: Options,
  look: (projectId: string) => Promise<T>,
): ProjectCache<T> {
  const remembered = new LRUCache<string, NonNullable<T>>({ max });
  const looking = new Map<string, Promise<T>>();
  let changes = 0;

  const lookAndKeep = async (projectId: string): Promise<T> => {
    const changesBefore = changes;
    const found = await look(projectId);
    // A change that came in while we looked may be about this very project: then the answer is not kept.
    if (found != null && changes === changesBefore) remembered.set(projectId, found);
    return found;
  };

  return {
    of: async (projectId) => {
      const known = isFresh() ? remembered.get(projectId) : undefined;
      if (known) return known;
      // Many requests at once look once.
      const pending = looking.get(projectId);
      if (pending) return pending;
      const search = lookAndKeep(projectId).finally(() => {
        if (looking.get(projectId) === search) looking.delete(projectId);
      });
      looking.set(projectId, search);
      return search;
    },
    forget: ({ projectId }, isAbout) => {
      changes++;
      // Who asks from now on must not hear what was found before.
      looking.clear();
      if (projectId !== null) remembered.delete(projectId);
      if (!isAbout) return;
      for (const [project, kept] of remembered.entries()) if (isAbout(kept)) remembered.delete(project);
    },
  };
}
