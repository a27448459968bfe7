// A project as a row of the control database, and its conversion to the wire format.

import type { Project } from '@rowhouse/api';
import { toMb } from '../lib/bytes.ts';
import { sql } from '../postgres/sql.ts';
import { isFull } from '../quotas/reserve.ts';
import type { ProjectLogin } from '../servers/databases/login.ts';

export type ProjectRow = {
  id: string;
  account_id: string;
  server_id: number;
  password_version: number;
  slug: string;
  name: string;
  limit_mb: number;
  stored_bytes: number;
  created_at: Date;
  deleted_at: Date | null;
  /** The job that fills the project. Until it is done, the project cannot be used. */
  filled_by: string | null;
  is_moving: boolean;
  /** The slug of the parent, if this is a branch and the parent exists. */
  parent: string | null;
  expires_at: Date | null;
};

export const projectColumns = sql`
  projects.id, projects.account_id, projects.server_id, projects.password_version, projects.slug, projects.name, projects.limit_mb,
  greatest(0, projects.size_bytes - projects.empty_bytes)::float8 as stored_bytes,
  projects.created_at, projects.deleted_at, projects.filled_by, projects.expires_at,
  exists (select from moves where moves.project_id = projects.id and moves.state in ('copying', 'undoing', 'switched')) as is_moving,
  (select slug from projects as parents where parents.id = projects.parent_id and parents.deleted_at is null) as parent`;

export function loginOfRow(row: ProjectRow): ProjectLogin {
  const { id, account_id: accountId, server_id: serverId, password_version: passwordVersion } = row;
  return { id, serverId, passwordVersion, accountId };
}

export function toProject(row: ProjectRow, keepDeletedDays: number): Project {
  return {
    id: row.id,
    slug: row.slug,
    name: row.name,
    limit_mb: row.limit_mb,
    size_mb: toMb(row.stored_bytes),
    status: statusOf(row),
    created_at: row.created_at.toISOString(),
    ...(row.parent !== null && { parent: row.parent }),
    ...(row.expires_at && { expires_at: row.expires_at.toISOString() }),
    ...(row.deleted_at && {
      deleted_at: row.deleted_at.toISOString(),
      dropped_after: new Date(row.deleted_at.getTime() + keepDeletedDays * 86_400_000).toISOString(),
    }),
  };
}

function statusOf(row: ProjectRow): Project['status'] {
  if (row.deleted_at) return 'deleted';
  if (row.filled_by !== null) return 'creating';
  if (row.is_moving) return 'moving';
  return isFull(row.stored_bytes, row.limit_mb) ? 'full' : 'ready';
}
