// A cache of values looked up per project. The change feed invalidates its entries; while the feed is behind, no entry
// is used.
import { LRUCache } from 'lru-cache';
import type { Change } from '../control/change-feed.ts';
import { upTo } from '../lib/cache-size.ts';
import { openInFlight } from '../lib/in-flight.ts';

export type ProjectCache<T> = {
  of(projectId: string): Promise<T>;
  /** From the cache alone; null if it has none. */
  recall(projectId: string): NonNullable<T> | null;
  /** `isAffected`: tells for a change that names no project which entries it affects. */
  forget(change: Change, isAffected?: (value: NonNullable<T>) => boolean): void;
  forgetAll(): void;
};

type Options = {
  max: number;
  /** Whether cached values may be used now. */
  isFresh: () => boolean;
};

/** A null from `load` is not cached. */
export function openProjectCache<T>(
  { max, isFresh }: Options,
  load: (projectId: string) => Promise<T>,
): ProjectCache<T> {
  const cached = new LRUCache<string, NonNullable<T>>(upTo(max));
  /** Concurrent requests share one look-up. */
  const shareLookUp = openInFlight<T>();
  let changes = 0;

  const loadAndCache = async (projectId: string): Promise<T> => {
    const changesBefore = changes;
    const found = await load(projectId);
    // A change that arrived during the look-up may affect this project: then the result is not cached.
    if (found != null && changes === changesBefore) cached.set(projectId, found);
    return found;
  };

  const recall = (projectId: string) => (isFresh() ? (cached.get(projectId) ?? null) : null);

  return {
    recall,
    of: async (projectId) => {
      const known = recall(projectId);
      if (known !== null) return known;
      return shareLookUp(projectId, () => loadAndCache(projectId));
    },
    forget: ({ projectId }, isAffected) => {
      changes++;
      shareLookUp.forget();
      if (projectId !== null) cached.delete(projectId);
      if (!isAffected) return;
      for (const [project, value] of cached.entries()) if (isAffected(value)) cached.delete(project);
    },
    forgetAll: () => {
      changes++;
      shareLookUp.forget();
      cached.clear();
    },
  };
}
