// The metrics of backups, and of restores: the drills that prove that a backup can be restored. Only the process that does the background work takes backups. Those without a label are the worst
// of all servers.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Drills } from '../backups/check/drills.ts';
import type { FleetKeeper } from '../backups/fleet-keeper.ts';
import type { BackupKeeper } from '../backups/keeper.ts';
import type { Gauges, LabelledGauges } from './registry.ts';

type Read = (keeper: BackupKeeper) => number | Promise<number>;

/** Shorter than the time that the registry waits: a server that hangs must not hide the others. */
const serverMs = 1_500;

const ageOf = (time: number | null, now: number) => (now - (time ?? Number.NaN)) / 1000;

export function backupGauges(fleet: FleetKeeper, now: () => number): Gauges {
  const worst = (read: Read) => async () => {
    const values = Object.values(await readAll(fleet, read)).filter((value) => !Number.isNaN(value));
    return values.length > 0 ? Math.max(...values) : Number.NaN;
  };
  /** A server that has none must not be hidden by the others. Math.max is NaN if one value is. */
  const oldest = (read: Read) => async () => {
    const values = Object.values(await readAll(fleet, read));
    return values.length > 0 ? Math.max(...values) : Number.NaN;
  };
  const sum = (read: Read) => async () =>
    Object.values(await readAll(fleet, read)).reduce((total, value) => total + value, 0);
  return {
    rowhouse_backup_verified_age_seconds: {
      help: 'Time since all backups were last read back without a problem. NaN: never, for at least one server.',
      read: oldest(async (keeper) => ageOf(await keeper.lastVerifiedAt(), now())),
    },
    rowhouse_backup_age_seconds: {
      help: 'Time since the last backup ended. NaN: at least one server has none.',
      read: oldest(async (keeper) => ageOf(await keeper.lastBackupAt(), now())),
    },
    rowhouse_backup_damaged: {
      help: 'Backups that cannot be restored, because their descriptions cannot be read.',
      read: sum((keeper) => keeper.damaged()),
    },
    rowhouse_backup_repository_missing: {
      help: '1 while the place of the backups is not their repository: a disk that is not mounted, or another repository.',
      read: () => ([...fleet.keepers().values()].some((keeper) => keeper.isRepositoryMissing()) ? 1 : 0),
    },
    rowhouse_backup_wal_lag_bytes: {
      help: 'WAL that is not stored in the backups yet.',
      read: worst(async (keeper) => (await keeper.lag()).bytes),
    },
    rowhouse_backup_wal_lag_seconds: {
      help: 'How much work would be lost if everything but the backups were destroyed now.',
      read: worst(async (keeper) => (await keeper.lag()).seconds),
    },
    rowhouse_backup_failures: {
      help: 'Attempts to take a backup that failed since the start.',
      read: sum((keeper) => keeper.failures().backup),
    },
    rowhouse_backup_wal_failures: {
      help: 'Attempts to store WAL that failed since the start.',
      read: sum((keeper) => keeper.failures().wal),
    },
  };
}

/** Restores that are tried: the drills of all servers. */
export function drillGauges(drills: Drills, now: () => number): Gauges {
  return {
    rowhouse_restore_drill_age_seconds: {
      help: 'Time since a project was last restored aside and found to be equal. NaN: never.',
      read: async () => (now() - ((await drills.oldestVerifiedAt()) ?? Number.NaN)) / 1000,
    },
    rowhouse_restore_drill_failures: {
      help: 'Restore drills that failed since the start.',
      read: () => drills.failures(),
    },
    rowhouse_restore_drill_failing_projects: {
      help: 'Projects whose last restore drill failed.',
      read: () => drills.failing(),
    },
  };
}

/** One value for each server. */
export function serverBackupGauges(fleet: FleetKeeper, now: () => number): LabelledGauges {
  const gauge = (help: string, read: Read) => ({ help, label: 'server', read: () => readAll(fleet, read) });
  return {
    rowhouse_server_backed_up: {
      help: '1 if Rowhouse backs the server up, 0 if it cannot.',
      label: 'server',
      read: () => ({
        ...Object.fromEntries(
          [...fleet.keepers()].map(([name, keeper]) => [name, keeper.isRepositoryMissing() ? 0 : 1]),
        ),
        ...Object.fromEntries([...fleet.problems().keys()].map((name) => [name, 0])),
      }),
    },
    rowhouse_server_backup_age_seconds: gauge(
      'Time since the last backup of the server ended. NaN: there is none.',
      async (keeper) => ageOf(await keeper.lastBackupAt(), now()),
    ),
    rowhouse_server_backup_wal_lag_bytes: gauge(
      'WAL of the server that is not stored in the backups yet. NaN: the server does not answer.',
      async (keeper) => (await keeper.lag()).bytes,
    ),
    rowhouse_server_backup_wal_lag_seconds: gauge(
      'How much work would be lost if the server were destroyed now. NaN: it does not answer.',
      async (keeper) => (await keeper.lag()).seconds,
    ),
  };
}

async function readAll(fleet: FleetKeeper, read: Read): Promise<Record<string, number>> {
  const values = [...fleet.keepers()].map(async ([name, keeper]): Promise<[string, number]> => {
    const late = sleep(serverMs, Number.NaN, { ref: false });
    const value = Promise.resolve(keeper).then(read);
    return [name, await Promise.race([value.catch(() => Number.NaN), late])];
  });
  return Object.fromEntries(await Promise.all(values));
}
