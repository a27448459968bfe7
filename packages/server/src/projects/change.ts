// Changes a project after its creation: name, limit, deletion and restoration.
import { setTimeout as sleep } from 'node:timers/promises';
import type { ChangeProject, Project } from '@rowhouse/api';
import { recordChange, trustedMs } from '../control/change-feed.ts';
import type { Control } from '../control/control.ts';
import { errors, RowhouseError } from '../errors/errors.ts';
import { type Caller, requireAccount, requireScope } from '../keys/caller.ts';
import type { Queryable } from '../postgres/admin/database.ts';
import { type Sql, sql } from '../postgres/sql.ts';
import type { Headroom } from '../quotas/headroom.ts';
import { measure } from '../quotas/sizes.ts';
import { databaseOf } from '../servers/databases/names.ts';
import { databaseExists } from '../servers/databases/provision.ts';
import type { Servers } from '../servers/server.ts';
import { withinLimits } from './account-limits.ts';
import { checkLimit } from './create.ts';
import { checkExpiry } from './expire.ts';
import { settleFence } from './fence.ts';
import { getProjectRow } from './find.ts';
import type { Logins } from './logins.ts';
import { type ProjectRow, projectColumns, toProject } from './project.ts';

type Deps = {
  control: Control;
  servers: Servers;
  limits: { maxLimitMb: number; keepDeletedDays: number };
};

/** A project's own key may rename it. Only the account may change its limit. */
export async function changeProject(
  { control, servers, headroom, limits, now }: Deps & { headroom: Headroom; now: () => number },
  caller: Caller,
  slug: string,
  { name, limit_mb: limitMb, expires_at: expiresAt }: ChangeProject,
): Promise<Project> {
  const {
    id,
    server_id: serverId,
    limit_mb: before,
    account_id: accountId,
  } = await getProjectRow(control, caller, slug);
  requireScope(caller, 'manage');
  if (limitMb !== undefined) {
    requireAccount(caller, 'change limit_mb');
    checkLimit(limitMb, limits.maxLimitMb);
    // The response says whether the project is full, so its size must be current.
    await measure({ control, server: servers.of(serverId) }, [databaseOf(id)]);
  }
  if (expiresAt !== undefined) {
    requireAccount(caller, 'change expires_at');
    checkExpiry(expiresAt, now());
  }
  // Another request may have changed the limit meanwhile.
  const added = async (transaction: Queryable) => {
    const [now] = await transaction.query<{ mb: number }>(
      sql`select limit_mb as mb from projects where id = ${id} for update`,
    );
    return { projects: 0, mb: limitMb === undefined || !now ? 0 : limitMb - now.mb };
  };
  const [row] = await withinLimits(control, accountId, added, (database) =>
    update(
      database,
      id,
      sql`name = coalesce(${name?.trim() ?? null}, name), limit_mb = coalesce(${limitMb ?? null}::int, limit_mb),
        expires_at = case when ${expiresAt === undefined} then expires_at else ${expiresAt == null ? null : new Date(expiresAt)}::timestamptz end`,
      sql`deleted_at is null`,
    ),
  );
  if (!row) throw errors.projectNotFound(slug);
  if (limitMb !== undefined) headroom.forget(id);
  // A lower limit must hold on every process before the response says so.
  if (limitMb !== undefined && limitMb < before) await sleep(trustedMs);
  return toProject(row, limits.keepDeletedDays);
}

/** The database is kept for some days, closed to connections. The project counts as deleted once the row says so. */
export async function deleteProject(
  { control, servers, logins, limits }: Deps & { logins: Logins },
  caller: Caller,
  slug: string,
): Promise<Project> {
  const { id } = await getProjectRow(control, caller, slug);
  requireAccount(caller, 'delete a project');
  const [row] = await update(control, id, sql`deleted_at = now()`, sql`deleted_at is null`);
  logins.forget(id);
  if (!row) throw errors.projectNotFound(slug);
  await settle({ control, servers }, row.server_id, id);
  return toProject(row, limits.keepDeletedDays);
}

/** The row is already changed. If setting the fence fails, the background work sets it later. */
async function settle(
  { control, servers }: { control: Control; servers: Servers },
  serverId: number,
  id: string,
): Promise<void> {
  const work = async () => settleFence({ control, server: servers.of(serverId) }, id);
  await work().catch((error) => {
    throw error instanceof RowhouseError && error.code === 'unavailable'
      ? errors.outcomeUnknown(error)
      : error;
  });
}

export async function undeleteProject(
  { control, servers, limits }: Deps,
  caller: Caller,
  slug: string,
): Promise<Project> {
  requireAccount(caller, 'restore a project');
  const {
    id,
    server_id: serverId,
    account_id: accountId,
    limit_mb: mb,
    deleted_at: deletedAt,
  } = await getProjectRow(control, caller, slug, { includeDeleted: true });
  const isKept = sql`deleted_at > now() - make_interval(days => ${limits.keepDeletedDays})`;
  if (!(await databaseExists(servers.of(serverId), id))) {
    throw errors.conflict('The database of this project is missing.', 'Restore it from a backup first.');
  }
  // One that has expired would be deleted again.
  const keptExpiry = sql`expires_at = case when expires_at > now() then expires_at end`;
  const added = deletedAt ? { projects: 1, mb } : { projects: 0, mb: 0 };
  const [row] = await withinLimits(control, accountId, added, (database) =>
    update(database, id, sql`deleted_at = null, ${keptExpiry}`, isKept),
  );
  if (!row)
    throw errors.conflict(
      'This project is not deleted, or it can no longer be restored.',
      'See its status with GET /api/dbaas/v2/projects/:slug.',
    );
  await settle({ control, servers }, serverId, id);
  return toProject(row, limits.keepDeletedDays);
}

async function update(
  control: Pick<Control, 'change'>,
  id: string,
  assignments: Sql,
  condition: Sql,
): Promise<ProjectRow[]> {
  return control.change<ProjectRow>(sql`
    with change as (${recordChange({ projectId: id })})
    update projects set ${assignments} where id = ${id} and ${condition}
    returning ${projectColumns}`);
}
