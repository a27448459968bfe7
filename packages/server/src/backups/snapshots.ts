// Snapshots: moments with a name. A snapshot stores nothing but its time: the backups hold every moment anyway.

import type { Snapshot } from '@rowhouse/api';
import type { Control } from '../control/control.ts';
import { errors } from '../errors/errors.ts';
import { type Caller, requireScope } from '../keys/caller.ts';
import { isState } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';
import { getProjectRow } from '../projects/find.ts';
import type { Fleet } from '../servers/fleet.ts';
import type { Server } from '../servers/server.ts';
import { maxSnapshots } from '../settings/limits/backups.ts';
import { type FleetBackups, lookAt, requireBackups } from './fleet-backups.ts';
import { listPreviousServers, previousServerAt } from './previous-servers.ts';
import { findRestorable, type Restorable } from './restorable.ts';

type Deps = { control: Control; servers: Fleet; backups: FleetBackups | null };

/** Everything that was acknowledged before the call is in it. Everything that begins after its end is not. */
export async function createSnapshot(
  { control, servers, backups }: Deps,
  caller: Caller,
  slug: string,
  name: string,
): Promise<Snapshot> {
  const { id, server_id: serverId } = await getProjectRow(control, caller, slug);
  requireScope(caller, 'manage');
  // In a URL they mean another path, so such a snapshot could not be deleted.
  if (/^\.{1,2}$/.test(name.trim()))
    throw errors.invalidRequest([{ path: 'name', problem: 'must not be "." or ".."' }]);
  if (!backups) throw errors.backupsOff();
  const server = servers.of(serverId);
  await requireBackups(backups, server);
  const at = await nextMillisecond(server);
  try {
    const rows = await control.change(sql`
      insert into snapshots (project_id, name, at)
      select ${id}, ${name.trim()}, ${at}
      where (select count(*) from snapshots where project_id = ${id}) < ${maxSnapshots}
      returning name`);
    if (rows.length === 0)
      throw errors.conflict(
        `The project has ${maxSnapshots} snapshots.`,
        'Delete one: DELETE …/snapshots/:name.',
      );
  } catch (error) {
    if (!isState(error, sqlstate.uniqueViolation)) throw error;
    throw errors.conflict(`There is already a snapshot "${name.trim()}".`, 'Choose another name.');
  }
  return { name: name.trim(), at: at.toISOString(), is_restorable: true };
}

/**
 * By the clock of the project's server, which is that of its commits. A restore is exact to the millisecond. So this one
 * begins after all that was acknowledged, and has passed on return.
 */
async function nextMillisecond({ maintenance }: Server): Promise<Date> {
  const [row] = await maintenance.query<{ at: Date }>(sql`
    select date_trunc('milliseconds', clock_timestamp()) + interval '1 millisecond' as at`);
  if (!row) throw errors.unavailable('PostgreSQL gave no time.');
  await maintenance.query(sql`select pg_sleep(0.002)`);
  return row.at;
}

/** Newest first. */
export async function listSnapshots(
  { control, servers, backups }: Deps,
  caller: Caller,
  slug: string,
): Promise<Snapshot[]> {
  const { id, server_id: serverId } = await getProjectRow(control, caller, slug, { includeDeleted: true });
  requireScope(caller, 'manage');
  const rows = await control.query<{ name: string; at: Date }>(
    sql`select name, at from snapshots where project_id = ${id} order by at desc, name`,
  );
  const previous = await listPreviousServers(control, id);
  /** By the server that the project has left since. null: the present one. */
  const looks = new Map<string | null, readonly Restorable[]>();
  for (const cluster of backups ? new Set(rows.map(({ at }) => previousServerAt(previous, at))) : [])
    if (backups) looks.set(cluster, await restorableOf({ backups, servers }, serverId, cluster));
  const isRestorable = (at: Date) =>
    findRestorable(looks.get(previousServerAt(previous, at)) ?? [], at) !== null;
  return rows.map(({ name, at }) => ({ name, at: at.toISOString(), is_restorable: isRestorable(at) }));
}

async function restorableOf(
  { backups, servers }: { backups: FleetBackups; servers: Fleet },
  serverId: number,
  previous: string | null,
): Promise<readonly Restorable[]> {
  if (previous !== null) return (await lookAt(backups.repositoryNamed(previous))).restorable;
  const member = servers.members().find(({ row }) => row.id === serverId);
  if (member?.server && member.isAnswering) return (await backups.of(member.server).look()).restorable;
  const repository = member && backups.repositoryOf(member);
  return repository ? (await lookAt(repository)).restorable : [];
}

export async function deleteSnapshot(
  { control }: Deps,
  caller: Caller,
  slug: string,
  name: string,
): Promise<void> {
  const { id } = await getProjectRow(control, caller, slug, { includeDeleted: true });
  requireScope(caller, 'manage');
  if (!canExist(name)) throw errors.snapshotNotFound(name);
  const rows = await control.change(sql`
    delete from snapshots where project_id = ${id} and name = ${name} returning name`);
  if (rows.length === 0) throw errors.snapshotNotFound(name);
}

export async function findSnapshot(control: Control, projectId: string, name: string): Promise<Date> {
  if (!canExist(name)) throw errors.snapshotNotFound(name);
  const [row] = await control.query<{ at: Date }>(
    sql`select at from snapshots where project_id = ${projectId} and name = ${name}`,
  );
  if (!row) throw errors.snapshotNotFound(name);
  return row.at;
}

/** PostgreSQL stores no NUL character. */
function canExist(name: string): boolean {
  return !name.includes('\0');
}
