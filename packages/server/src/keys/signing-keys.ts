// The keys that sign users' tokens: a project's own, with those that were rotated and are still in grace. Kept in memory as
// callers are; verify.ts tells when what is kept may be used, and what has changed.
import { LRUCache } from 'lru-cache';
import type { Change } from '../control/changes.ts';
import type { Control } from '../control/control.ts';
import { sql } from '../postgres/sql.ts';
import { unseal } from './seal.ts';

/** The newest first. `expiresAt`: to be looked at when it is used. */
export type SigningKey = Readonly<{ id: string; secret: string; expiresAt: number | null }>;

export type SigningKeys = {
  of(projectId: string): Promise<readonly SigningKey[]>;
  forget(change: Change): void;
};

type Options = {
  control: Control;
  masterKey: Buffer;
  /** May what is kept in memory be used now? */
  isFresh: () => boolean;
};

const rememberedProjects = 5_000;

export function keepSigningKeys({ control, masterKey, isFresh }: Options): SigningKeys {
  const remembered = new LRUCache<string, readonly SigningKey[]>({ max: rememberedProjects });
  const looking = new Map<string, Promise<readonly SigningKey[]>>();
  let changes = 0;

  const look = async (projectId: string): Promise<readonly SigningKey[]> => {
    const changesBefore = changes;
    const keys = await findSigningKeys(control, masterKey, projectId);
    // A change that came in while we looked may be about these: then they are not kept.
    if (changes === changesBefore) remembered.set(projectId, keys);
    return keys;
  };

  return {
    of: async (projectId) => {
      const known = isFresh() ? remembered.get(projectId) : undefined;
      if (known) return known;
      // Many requests at once look once.
      const pending = looking.get(projectId);
      if (pending) return pending;
      const search = look(projectId).finally(() => {
        if (looking.get(projectId) === search) looking.delete(projectId);
      });
      looking.set(projectId, search);
      return search;
    },
    forget: ({ projectId, keyId }) => {
      changes++;
      // Who asks from now on must not hear what was found before.
      looking.clear();
      if (projectId !== null) remembered.delete(projectId);
      if (keyId === null) return;
      for (const [project, keys] of remembered.entries())
        if (keys.some(({ id }) => id === keyId)) remembered.delete(project);
    },
  };
}

async function findSigningKeys(
  control: Control,
  masterKey: Buffer,
  projectId: string,
): Promise<readonly SigningKey[]> {
  const rows = await control.query<{ id: string; sealed: Buffer; expiresAt: number | null }>(sql`
    select id, sealed, (extract(epoch from expires_at) * 1000)::float8 as "expiresAt"
    from keys
    where project_id = ${projectId} and kind = 'project' and sealed is not null
      and revoked_at is null and (expires_at is null or expires_at > now())
    order by rotated_at desc nulls first`);
  return rows.map(({ id, sealed, expiresAt }) => ({ id, secret: unseal(masterKey, sealed, id), expiresAt }));
}
