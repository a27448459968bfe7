// The keys that sign users' tokens: a project's own, with those that were rotated and are still in grace. Kept in memory as
// callers are; verify.ts tells when what is kept may be used, and what has changed.
import type { Change } from '../control/changes.ts';
import type { Control } from '../control/control.ts';
import { sql } from '../postgres/sql.ts';
import { openProjectCache } from './project-cache.ts';
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
  const kept = openProjectCache({ max: rememberedProjects, isFresh }, (id) =>
    findSigningKeys(control, masterKey, id),
  );
  return {
    of: kept.of,
    forget: (change) =>
      kept.forget(
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
