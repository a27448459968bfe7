// Who could use what at a moment: the projects and keys of a control database. A restore to an earlier time brings back
// what was deleted or revoked since; the comparison with the newest state in the backups finds it.

import { openDatabase } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import type { RecoveryServer } from '../../servers/embedded/recovery-server.ts';

type AccessProject = { id: string; slug: string; name: string; created_at: Date; deleted_at: Date | null };
type AccessKey = {
  id: string;
  kind: 'account' | 'project' | 'scoped' | 'publishable';
  project_id: string | null;
  name: string;
  start: string;
  created_at: Date;
  expires_at: Date | null;
  rotated_at: Date | null;
  revoked_at: Date | null;
};
export type Access = { projects: AccessProject[]; keys: AccessKey[] };

/** `ended_at`: null if the row is not there any more, so that the time is unknown. */
type AgainProject = { slug: string; name: string; ended_at: string | null; command: string };
type AgainKey = {
  /** null: a key of the account. */
  project: string | null;
  id: string;
  kind: AccessKey['kind'];
  name: string;
  start: string;
  ended_at: string | null;
  command: string;
};
export type AccessChanges = {
  /** They were deleted, and exist again. */
  projects_again: AgainProject[];
  /** They were revoked or replaced, and work again. `command` ends them. */
  keys_again: AgainKey[];
  /** They were deleted at the restored time and brought back since: they are deleted again. `command` brings them back. */
  projects_deleted: { slug: string; name: string; command: string }[];
  /** They were created since, and do not exist any more. */
  projects_lost: { slug: string; name: string; created_at: string }[];
  /** Keys of projects that exist, created since the restored time. */
  keys_lost: { project: string | null; kind: AccessKey['kind']; name: string; start: string }[];
};

export async function readAccess(
  { address }: Pick<RecoveryServer, 'address'>,
  controlDatabase: string,
): Promise<Access> {
  const control = openDatabase({ ...address, database: controlDatabase }, { max: 1 });
  try {
    return {
      // A project that a job was filling is dropped at the start: it never was one.
      projects: await control.query<AccessProject>(sql`
        select id, slug, name, created_at, deleted_at from projects where filled_by is null order by slug`),
      keys: await control.query<AccessKey>(sql`
        select id, kind, project_id, name, start, created_at, expires_at, rotated_at, revoked_at
        from keys order by created_at, id`),
    };
  } finally {
    await control.end();
  }
}

/** `now`: keys that have expired by then do not work in either state. */
export function compareAccess(restored: Access, newest: Access, now: Date): AccessChanges {
  const isLive = ({ deleted_at }: { deleted_at: Date | null }) => deleted_at === null;
  const before = new Map(restored.projects.map((project) => [project.id, project]));
  const after = new Map(newest.projects.map((project) => [project.id, project]));
  const keysAfter = new Map(newest.keys.map((key) => [key.id, key]));
  const keysBefore = new Set(restored.keys.map(({ id }) => id));
  /** undefined: the project does not exist in the restored state. null: a key of the account. */
  const projectOf = ({ project_id: id }: AccessKey) => {
    const project = id === null ? null : before.get(id);
    return project && !isLive(project) ? undefined : project;
  };
  const works = (key: AccessKey) =>
    key.revoked_at === null && (key.expires_at === null || key.expires_at > now);

  const changes: AccessChanges = {
    projects_again: [],
    keys_again: [],
    projects_deleted: [],
    projects_lost: [],
    keys_lost: [],
  };
  for (const project of restored.projects.filter(isLive)) {
    const later = after.get(project.id);
    if (later && isLive(later)) continue;
    changes.projects_again.push({
      slug: project.slug,
      name: project.name,
      ended_at: timeOf(later?.deleted_at),
      command: `rowhouse projects delete ${project.slug} --yes`,
    });
  }
  for (const key of restored.keys.filter(works)) {
    const project = projectOf(key);
    const later = keysAfter.get(key.id);
    // With its project, the row of a key is gone: deleting the project again ends the key.
    const isGone = !later && (project === null || (project && after.has(project.id)));
    const endedAt = later?.revoked_at ?? (key.rotated_at === null ? later?.rotated_at : null) ?? null;
    if (project === undefined || (endedAt === null && !isGone)) continue;
    changes.keys_again.push({
      project: project?.slug ?? null,
      id: key.id,
      kind: key.kind,
      name: key.name,
      start: key.start,
      ended_at: timeOf(endedAt),
      command: commandFor(key, project?.slug ?? null),
    });
  }
  for (const { id, slug, name, created_at } of newest.projects.filter(isLive)) {
    const earlier = before.get(id);
    if (!earlier) changes.projects_lost.push({ slug, name, created_at: created_at.toISOString() });
    else if (!isLive(earlier))
      changes.projects_deleted.push({ slug, name, command: `rowhouse projects restore ${earlier.slug}` });
  }
  for (const key of newest.keys.filter(works)) {
    const project = projectOf(key);
    if (keysBefore.has(key.id) || project === undefined) continue;
    const { kind, name, start } = key;
    changes.keys_lost.push({ project: project?.slug ?? null, kind, name, start });
  }
  return changes;
}

/** A project's current key cannot be revoked, only replaced: it signs the tokens of users. */
function commandFor({ id, kind, rotated_at }: AccessKey, slug: string | null): string {
  if (slug === null) return 'rowhouse start --new-account-key';
  if (kind === 'project' && rotated_at === null) return `rowhouse keys rotate ${slug} --grace 0s`;
  return `rowhouse keys revoke ${slug} ${id}`;
}

function timeOf(time: Date | null | undefined): string | null {
  return time?.toISOString() ?? null;
}
