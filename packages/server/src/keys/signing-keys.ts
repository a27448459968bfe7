// The keys that sign and verify users' tokens: the project's own key, and rotated ones within their grace period. They
// are cached like callers are; verify.ts passes on changes and whether the cache is fresh.
import type { Change } from '../control/change-feed.ts';
import type { Control } from '../control/control.ts';
import { unseal } from '../control/seal.ts';
import { sql } from '../postgres/sql.ts';
import { openProjectCache } from './project-cache.ts';

/** `expiresAt` must be checked at each use: cached keys can expire. */
export type SigningKey = Readonly<{ id: string; secret: string; expiresAt: number | null }>;

export type SigningKeys = {
  /** Newest first. */
  of(projectId: string): Promise<readonly SigningKey[]>;
  recall(projectId: string): readonly SigningKey[] | null;
  forget(change: Change): void;
  forgetAll(): void;
};

type Options = {
  control: Control;
  masterKey: Buffer;
  /** Whether cached values may be used now. */
  isFresh: () => boolean;
};

const maxCachedProjects = 5_000;

export function openSigningKeys({ control, masterKey, isFresh }: Options): SigningKeys {
  const cache = openProjectCache({ max: maxCachedProjects, isFresh }, (id) =>
    findSigningKeys(control, masterKey, id),
  );
  return {
    of: cache.of,
    recall: cache.recall,
    forgetAll: cache.forgetAll,
    forget: (change) =>
      cache.forget(
        change,
        change.keyId === null ? undefined : (keys) => keys.some(({ id }) => id === change.keyId),
      ),
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
