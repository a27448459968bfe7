// What `rowhouse doctor` says about backups. It needs neither the service nor the master key. With the key, it also reads the
// descriptions of the backups.
import { setTimeout as sleep } from 'node:timers/promises';
import { openControl } from '../../control/control.ts';
import { peekSetting } from '../../control/settings.ts';
import type { RowhouseError } from '../../errors/errors.ts';
import { type Address, openDatabase, type Queryable } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { clusterFolderOf, embeddedAddress } from '../../servers/embedded/embedded.ts';
import { inspectInstallation } from '../../servers/embedded/master-key-fit.ts';
import { inspectPidFile } from '../../servers/embedded/server-processes.ts';
import { parseDatabaseUrl } from '../../servers/external.ts';
import type { BackupLocation } from '../../settings/backup-url.ts';
import { backupLocation, type Config } from '../../settings/config.ts';
import { isOnDataDisk } from '../data-disk.ts';
import { describeFailure } from '../failure.ts';
import { findRefusal, onlyFirst } from '../fleet-backups.ts';
import { type NotBackedUp, readProblem } from '../problem.ts';
import { type DamagedBackup, isDamage, readBackups } from '../repository/descriptions.ts';
import { rememberedAt } from '../repository/identity.ts';
import { listClusters, openRepository } from '../repository/repository.ts';
import { absent } from '../storage/guard.ts';
import { readMarker } from '../storage/marker.ts';
import { openStorage } from '../storage/open.ts';
import type { Storage } from '../storage/storage.ts';
import { describeTablespaces, listTablespaces, tablespaceHint } from '../take/tablespaces.ts';
import { findSlot, type SlotState, slotName } from '../wal/slot.ts';
import { parseDrillProblems } from './drill-problems.ts';

type Finding = { state: 'ok' | 'warning' | 'problem'; found: string; todo?: string };
const elsewhere = 'Set ROWHOUSE_BACKUP_URL to a folder on another disk, or to a bucket.';
const anew = 'Take a full backup now: rowhouse backup now --full. Then look for the cause in the log.';
/** There is a drill every night. */
const provenForMs = 3 * 24 * 60 * 60 * 1000;
/** The slot is told every second or two. */
const manyBytes = 64 * 1024 * 1024;
/** Within this time, WAL that was written before must be stored. */
const soonMs = 15_000;
const lookMs = 250;

export async function examineBackups(config: Config): Promise<{ check: 'backups' } & Finding> {
  const location = backupLocation(config);
  return { check: 'backups', ...(await examine(config, location)) };
}

/** Only a restore proves that backups can be restored. Empty: there is nothing to say. */
export async function examineDrills(config: Config): Promise<({ check: string } & Finding)[]> {
  if (!backupLocation(config)) return [];
  const address = await runningAt(config);
  // The tables are there as soon as the installation has an id.
  if (!address || (await peekSetting(address, config.controlDatabase, 'installation')) === null) return [];
  const found = await lastDrills(address, config.controlDatabase, config.backup === null);
  return found.map(({ server, last }) => ({
    check: 'restore drills',
    ...describeDrill(last, found.length === 1 ? '' : ` of ${server}`),
  }));
}

function describeDrill(last: string | null, of: string): Finding {
  if (last !== null && Date.now() - Date.parse(last) < provenForMs)
    return { state: 'ok', found: `a project${of} was last restored and compared at ${last}` };
  const found =
    last === null
      ? `no restore from these backups${of} has been proven yet`
      : `no restore${of} has been proven since ${last}`;
  const todo =
    'Try one now: rowhouse backup drill. The service does this every night; its log has the reason if it fails.';
  return { state: 'warning', found, todo };
}

type LastDrill = { server: string; last: string | null };

/** The last drill of each server with projects. The first server has no address. */
async function lastDrills(
  address: Address,
  controlDatabase: string,
  onlyOfFirst: boolean,
): Promise<LastDrill[]> {
  const control = openControl(address, controlDatabase);
  try {
    return await control.query<LastDrill>(sql`
      select servers.name as server, settings.value as last
      from servers left join settings
        on settings.name = case when address is null then 'drilled_at' else 'drilled_at:' || servers.id end
      where (address is null or not ${onlyOfFirst})
        and exists (select from projects where server_id = servers.id and deleted_at is null and filled_by is null)
      order by address is not null, servers.id`);
  } finally {
    await control.end();
  }
}

async function examine(config: Config, location: BackupLocation | null): Promise<Finding> {
  if (!location) return { state: 'warning', found: 'off', todo: elsewhere };
  const storage = openStorage(location);
  try {
    const address = await runningAt(config);
    // Before anything is read there: what an empty folder contains says nothing about the backups.
    const missing = address && (await examineRepository(location, storage, address, config.controlDatabase));
    if (missing) return missing;
    const ids: string[] = [];
    for (const cluster of await listClusters(storage)) {
      for (const id of await storage.folders(`${cluster}/base/`)) {
        for await (const { name } of storage.list(`${cluster}/base/${id}/backup`)) {
          if (name.endsWith('/backup')) ids.push(id);
        }
      }
    }
    const newest = ids.sort().at(-1);
    const found = newest
      ? `${ids.length} in ${storage.place}, the last one ${newest}`
      : `none in ${storage.place}`;
    const problem =
      (await examineDescriptions(config, storage)) ??
      (address &&
        ((await examineTablespaces(address)) ??
          (await examineDrill(address, config.controlDatabase)) ??
          (await examineSlot(address, config.controlDatabase))));
    if (problem) return { ...problem, found: `${found}; ${problem.found}` };
    if (isOnDataDisk(location, config.databaseUrl ? null : config.dataFolder))
      return { state: 'warning', found: `${found}, on the disk of the data`, todo: elsewhere };
    return { state: 'ok', found: newest ? found : `${found} yet; a running service takes one` };
  } catch (error) {
    const todo = 'Check the storage, and the credentials for it. WAL is kept until it can be stored.';
    return { state: 'problem', found: `${storage.place} cannot be read: ${(error as Error).message}`, todo };
  } finally {
    storage.close();
  }
}

/** null: the place is the repository, or is new to the installation. */
async function examineRepository(
  location: BackupLocation,
  storage: Storage,
  address: Address,
  controlDatabase: string,
): Promise<Finding | null> {
  const wanted = rememberedAt(location, await peekSetting(address, controlDatabase, 'backup_repositories'));
  const present = wanted && (await readMarker(storage));
  if (present === wanted) return null;
  const { message, hint } = describeFailure(absent(storage.place, present)) as RowhouseError;
  return { state: 'problem', found: message, todo: hint ?? elsewhere };
}

async function examineDescriptions(config: Config, storage: Storage): Promise<Finding | null> {
  const inspection = await inspectInstallation(config);
  if (!('key' in inspection)) return null;
  const damaged: DamagedBackup[] = [];
  for (const cluster of await listClusters(storage)) {
    const listed = await readBackups(openRepository(storage, inspection.key, cluster)).catch((error) => {
      // All of them: these are the backups of another installation, or the check of the master key has more to say.
      if (isDamage(error)) return null;
      throw error;
    });
    damaged.push(...(listed?.damaged ?? []));
  }
  const [first] = damaged;
  if (!first) return null;
  const more = damaged.length === 1 ? '' : ` (and ${damaged.length - 1} more)`;
  const found = `the backup ${first.id}${more} is damaged and cannot be restored: ${first.problem}`;
  return { state: 'problem', found, todo: anew };
}

/** The address of the server, if it runs. Nothing is started for this. */
async function runningAt(config: Config): Promise<Address | null> {
  if (config.databaseUrl) return parseDatabaseUrl(config.databaseUrl);
  const key = await inspectInstallation(config);
  if (!('key' in key) || inspectPidFile(clusterFolderOf(config.dataFolder))?.kind !== 'ours') return null;
  return embeddedAddress(config.dataFolder, key.key);
}

async function examineDrill(address: Address, controlDatabase: string): Promise<Finding | null> {
  const problems = parseDrillProblems(await peekSetting(address, controlDatabase, 'drill_problems'));
  const [first, ...others] = problems;
  if (!first) return null;
  const more = others.length === 0 ? '' : ` (and of ${others.length} more)`;
  const found = `the restore drill of ${first.slug}${more} failed at ${first.failedAt}: ${first.problem}`;
  return { state: 'problem', found, todo: anew };
}

/** A further server, which can be reached. `installation`: null if it is not known. */
export async function examineServerBackups(
  config: Config,
  address: Address,
  installation: string | null,
): Promise<Finding[]> {
  const location = backupLocation(config);
  if (!location) return [{ state: 'warning', found: 'is not backed up: backups are off', todo: elsewhere }];
  if (config.backup === null) return [notBackedUp(onlyFirst)];
  const database = openDatabase(address, { max: 1 });
  try {
    const refusal = await findRefusal({ maintenance: database });
    if (refusal) return [notBackedUp(refusal)];
    const problem =
      (await examineTablespaces(address)) ?? (installation && (await examineSlotOf(database, installation)));
    return [
      problem || { state: 'ok' as const, found: 'is backed up' },
      ...(await examineKeepSize(database, installation)),
    ];
  } finally {
    await database.end();
  }
}

function notBackedUp({ reason, hint }: NotBackedUp): Finding {
  return { state: 'warning', found: `is not backed up: ${reason}`, todo: hint };
}

/** The embedded server always has a limit. */
async function examineKeepSize(database: Queryable, installation: string | null): Promise<Finding[]> {
  const [row] = await database.query<{ size: string }>(
    sql`select current_setting('max_slot_wal_keep_size') as size`,
  );
  if (row?.size !== '-1') return [];
  const slot = installation === null ? '' : ` ${slotName(installation)}`;
  const found = `the replication slot${slot} can fill the disk of the server while backups cannot be stored`;
  const todo = "alter system set max_slot_wal_keep_size = '4GB'; select pg_reload_conf();";
  return [{ state: 'warning', found, todo }];
}

async function examineTablespaces(address: Address): Promise<Finding | null> {
  const database = openDatabase(address, { max: 1 });
  try {
    const names = await listTablespaces(database);
    if (names.length === 0) return null;
    return { state: 'problem', found: describeTablespaces(names), todo: tablespaceHint };
  } finally {
    await database.end();
  }
}

async function examineSlot(address: Address, controlDatabase: string): Promise<Finding | null> {
  const installation = await peekSetting(address, controlDatabase, 'installation');
  if (installation === null) return null;
  for (const name of ['wal_problem', 'backup_problem'] as const) {
    const problem = readProblem(await peekSetting(address, controlDatabase, name));
    if (problem) return { state: 'problem', found: problem.reason, todo: problem.hint };
  }
  const database = openDatabase(address, { max: 1 });
  try {
    return await examineSlotOf(database, installation);
  } finally {
    await database.end();
  }
}

async function examineSlotOf(database: Queryable, installation: string): Promise<Finding | null> {
  const slot = await findSlot(database, slotName(installation));
  const todo = 'Start the service with the same settings. If it runs, its log has the reason.';
  if (!slot) return { state: 'warning', found: 'no WAL is stored', todo };
  if (slot.restart === null) {
    return { state: 'problem', found: 'PostgreSQL has given up WAL that was not stored', todo };
  }
  const mb = Math.ceil(slot.lagBytes / 1024 / 1024);
  if (!slot.isActive || slot.lagBytes >= manyBytes)
    return { state: slot.isActive ? 'warning' : 'problem', found: `${mb} MB of WAL are not stored`, todo };
  if (await isStoredSoon(database, slotName(installation), slot)) return null;
  const found = `WAL is not being stored: ${mb} MB that were written ${soonMs / 1000} s ago are not stored yet`;
  return { state: 'problem', found, todo };
}

/** Whether what PostgreSQL has flushed by now is stored a few seconds later. */
async function isStoredSoon(database: Queryable, name: string, first: SlotState): Promise<boolean> {
  const wanted = (first.restart ?? 0n) + BigInt(first.lagBytes);
  for (let waited = 0; ; waited += lookMs) {
    const slot = waited === 0 ? first : await findSlot(database, name);
    if (slot?.restart != null && slot.restart >= wanted) return true;
    if (waited >= soonMs) return false;
    await sleep(lookMs);
  }
}
