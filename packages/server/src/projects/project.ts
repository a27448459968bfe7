// A project as a row of the control database, and its conversion to the wire format.
import type { Project } from '@rowhouse/api';
import { sql } from '../postgres/sql.ts';
import { isFull } from '../quotas/reserve.ts';
import { toMb } from '../quotas/sizes.ts';

export type ProjectRow = {
  id: string;
  account_id: string;
  password_version: number;
  slug: string;
  name: string;
  limit_mb: number;
  stored_bytes: number;
  created_at: Date;
  deleted_at: Date | null;
};

export const projectColumns = sql`
  projects.id, projects.account_id, projects.password_version, projects.slug, projects.name, projects.limit_mb,
  greatest(0, projects.size_bytes - projects.empty_bytes)::float8 as stored_bytes,
  projects.created_at, projects.deleted_at`;

export function toProject(row: ProjectRow, keepDeletedDays: number): Project {
  return {
    id: row.id,
    slug: row.slug,
    name: row.name,
    limit_mb: row.limit_mb,
    size_mb: toMb(row.stored_bytes),
    status: row.deleted_at ? 'deleted' : isFull(row.stored_bytes, row.limit_mb) ? 'full' : 'ready',
    created_at: row.created_at.toISOString(),
    ...(row.deleted_at && {
      deleted_at: row.deleted_at.toISOString(),
      dropped_after: new Date(row.deleted_at.getTime() + keepDeletedDays * 86_400_000).toISOString(),
    }),
  };
}
