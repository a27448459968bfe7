// Snapshots: moments with a name. A snapshot stores nothing but its time: the backups hold every moment anyway.
import type { Snapshot } from '@rowhouse/api';
import type { Control } from '../control/control.ts';
import type { Server } from '../engine/servers.ts';
import { errors } from '../errors.ts';
import { type Caller, requireScope } from '../keys/caller.ts';
import { isState } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';
import { getProjectRow } from '../projects/find.ts';
import type { Backups } from './backups.ts';
import { findRestorable } from './restorable.ts';

type Deps = { control: Control; backups: Backups | null };
/** The first server, the only one that is backed up. */
type BackedUp = { server: Pick<Server, 'id'> };

const maxSnapshots = 100;

/** Everything that was acknowledged before the call is in it. Everything that begins after its end is not. */
export async function createSnapshot(
  { control, backups, server }: Deps & BackedUp,
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
  if (serverId !== server.id) throw notBackedUp();
  const at = await nextMillisecond(control);
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

function notBackedUp() {
  return errors.restoreUnavailable(
    'This project is on a further server, which Rowhouse does not back up.',
    'Export the project instead: GET …/export.',
  );
}

/** A restore is exact to the millisecond. So this one begins after all that was acknowledged, and has passed on return. */
async function nextMillisecond(control: Control): Promise<Date> {
  const [row] = await control.query<{ at: Date }>(sql`
    select date_trunc('milliseconds', clock_timestamp()) + interval '1 millisecond' as at`);
  if (!row) throw errors.unavailable('PostgreSQL gave no time.');
  await control.query(sql`select pg_sleep(0.002)`);
  return row.at;
}

/** Newest first. */
export async function listSnapshots(
  { control, backups }: Deps,
  caller: Caller,
  slug: string,
): Promise<Snapshot[]> {
  const { id } = await getProjectRow(control, caller, slug, { evenDeleted: true });
  requireScope(caller, 'manage');
  const rows = await control.query<{ name: string; at: Date }>(
    sql`select name, at from snapshots where project_id = ${id} order by at desc, name`,
  );
  const restorable = rows.length > 0 && backups ? (await backups.look()).restorable : [];
  const isRestorable = (at: Date) => findRestorable(restorable, at) !== null;
  return rows.map(({ name, at }) => ({ name, at: at.toISOString(), is_restorable: isRestorable(at) }));
}

export async function deleteSnapshot(
  { control }: Deps,
  caller: Caller,
  slug: string,
  name: string,
): Promise<void> {
  const { id } = await getProjectRow(control, caller, slug, { evenDeleted: true });
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
