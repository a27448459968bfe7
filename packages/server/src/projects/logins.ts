// Resolves a slug to a project and its login. A project's key already names its project; for an account key the project
// is looked up once and cached until the change feed reports a change.
import { LRUCache } from 'lru-cache';
import type { Feed } from '../control/change-feed.ts';
import type { Control } from '../control/control.ts';
import { type Caller, seesProject } from '../keys/caller.ts';
import { upTo } from '../lib/cache-size.ts';
import type { ProjectLogin } from '../servers/databases/login.ts';
import { getProjectRow } from './find.ts';
import { loginOfRow } from './project.ts';

export type Logins = {
  /** Throws unless the caller may see the project and it is not deleted. */
  of(caller: Caller, slug: string): Promise<ProjectLogin>;
  /** The same from the cache alone; null if it is not cached. */
  recall(caller: Caller, slug: string): ProjectLogin | null;
  /** For changes made by this process, which knows of them before the feed does. */
  forget(projectId: string): void;
};

const maxCachedProjects = 20_000;

export function openLogins(control: Control, feed: Feed): Logins {
  const cached = new LRUCache<string, ProjectLogin>(upTo(maxCachedProjects));
  let changes = 0;

  const forget = (projectId: string) => {
    changes++;
    for (const [name, { id }] of cached.entries()) if (id === projectId) cached.delete(name);
  };
  feed.listen(({ projectId }) => {
    if (projectId !== null) forget(projectId);
  });
  feed.listenToReset(() => {
    changes++;
    cached.clear();
  });

  const recall = (caller: Caller, slug: string): ProjectLogin | null => {
    if (caller.kind === 'account') {
      const known = feed.isFresh() ? cached.get(nameOf(caller.accountId, slug)) : undefined;
      return known && seesProject(caller, known.id) ? known : null;
    }
    if (caller.slug !== slug) return null;
    const { projectId, serverId, passwordVersion, accountId, keyId } = caller;
    return { id: projectId, serverId, passwordVersion, accountId, caller: keyId };
  };

  return {
    recall,
    forget,
    of: async (caller, slug) => {
      const known = recall(caller, slug);
      if (known) return known;
      const changesBefore = changes;
      const row = await getProjectRow(control, caller, slug);
      const login = loginOfRow(row);
      // A change that arrived during the look-up may affect this project: then the result is not cached.
      if (changes === changesBefore) cached.set(nameOf(caller.accountId, slug), login);
      return login;
    },
  };
}

function nameOf(accountId: string, slug: string): string {
  return `${accountId} ${slug}`;
}
