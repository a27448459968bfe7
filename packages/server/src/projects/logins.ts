// Which project a caller means by a slug, and how to log in to it. A project's own key knows; for an account's it is looked
// up once and kept as long as the feed of changes says nothing else.
import { LRUCache } from 'lru-cache';
import type { Feed } from '../control/changes.ts';
import type { Control } from '../control/control.ts';
import type { ProjectLogin } from '../engine/provision.ts';
import type { Caller } from '../keys/caller.ts';
import { getProjectRow } from './find.ts';

export type Logins = {
  /** Throws unless the caller may see the project and it lives. */
  of(caller: Caller, slug: string): Promise<ProjectLogin>;
  /** The same if memory alone can tell. */
  recall(caller: Caller, slug: string): ProjectLogin | null;
  /** It was changed by this very process, which knows before the feed does. */
  forget(projectId: string): void;
};

const rememberedProjects = 20_000;

export function openLogins(control: Control, feed: Feed): Logins {
  const remembered = new LRUCache<string, ProjectLogin>({ max: rememberedProjects });
  let changes = 0;

  const forget = (projectId: string) => {
    changes++;
    for (const [name, { id }] of remembered.entries()) if (id === projectId) remembered.delete(name);
  };
  feed.listen(({ projectId }) => {
    if (projectId !== null) forget(projectId);
  });

  const recall = (caller: Caller, slug: string): ProjectLogin | null => {
    if (caller.kind === 'account')
      return (feed.isFresh() && remembered.get(nameOf(caller.accountId, slug))) || null;
    return caller.slug === slug ? { id: caller.projectId, passwordVersion: caller.passwordVersion } : null;
  };

  return {
    recall,
    forget,
    of: async (caller, slug) => {
      const known = recall(caller, slug);
      if (known) return known;
      const changesBefore = changes;
      const row = await getProjectRow(control, caller, slug);
      const login = { id: row.id, passwordVersion: row.password_version };
      // A change that came in while we looked may be about this very project: then the answer is not kept.
      if (changes === changesBefore) remembered.set(nameOf(caller.accountId, slug), login);
      return login;
    },
  };
}

function nameOf(accountId: string, slug: string): string {
  return `${accountId} ${slug}`;
}
