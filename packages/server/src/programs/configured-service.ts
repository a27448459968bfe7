// The service as the settings describe it: each setting becomes an option of `openService`. Apart from main.ts, which has the
// order of the start.
import { availableParallelism } from 'node:os';
import path from 'node:path';
import type { Logger } from 'pino';
import { slotsFor } from '../access/passwords/hashing.ts';
import type { Address } from '../postgres/admin/database.ts';
import { publicAddress } from '../postgres-proxy/public-address.ts';
import { clusterFolderOf } from '../servers/embedded/embedded.ts';
import { connectionsByMemory, machineMemoryMb } from '../servers/embedded/embedded-settings.ts';
import { openService } from '../service.ts';
import { backupLocation, type Config, consoleUrl, providerIn, urlOf } from '../settings/config.ts';

export function openConfigured(
  config: Config,
  address: Address,
  masterKey: Buffer,
  log: Logger,
  role: { background: boolean },
) {
  return openService({
    address,
    serverName: config.databaseUrl ? 'external' : 'embedded',
    controlDatabase: config.controlDatabase,
    masterKey,
    spares: config.spares,
    ...(!config.databaseUrl && {
      disk: diskOf(config),
      embedded: {
        folder: clusterFolderOf(config.dataFolder),
        restartAfterMs: config.restartAfterSeconds * 1000,
      },
    }),
    restores: { dataFolder: config.dataFolder, isExternal: config.databaseUrl !== null },
    ...backupOptions(config),
    consolePage: consoleUrl(config, urlOf(config)),
    provider: providerIn(config),
    limits: {
      maxLimitMb: config.maxLimitMb,
      keepDeletedDays: config.keepDeletedDays,
      auditDays: config.auditDays,
      maxTimeoutMs: config.maxTimeoutMs,
    },
    // Each worker gets its share.
    connections: {
      budget: Math.max(1, Math.floor(config.connections / config.workers)),
      kept: Math.max(1, Math.floor(keptConnections(config) / config.workers)),
      share: Math.max(1, Math.ceil(config.projectConnections / config.workers)),
      processes: config.workers,
    },
    users: {
      passwordIterations: config.passwordIterations,
      hashingSlots: slotsFor(availableParallelism() / config.workers),
      delivery: config,
    },
    proxy: publicAddress(config),
    exports: { programs: config.programEnvironment },
    imports: {
      folder: path.join(config.dataFolder, 'imports'),
      allowPrivateHosts: config.importPrivateHosts,
    },
    log,
    ...role,
  });
}

/** For an external server, it is unknown how many more connections it can serve. */
export function keptConnections({ databaseUrl, connections, keptConnections: kept }: Config): number {
  const usual = databaseUrl ? connections : connectionsByMemory(machineMemoryMb());
  return Math.max(connections, kept ?? usual);
}

function backupOptions(config: Config) {
  const location = backupLocation(config);
  const { backupDays: retentionDays, backupRateMb: rateMb } = config;
  return (
    location && {
      backups: {
        location,
        retentionDays,
        rateMb,
        reserveBytes: diskOf(config).reserveBytes,
        // The usual folder is on the disk of the first server, which may not have room for the others.
        onlyFirst: config.backup === null,
      },
    }
  );
}

export function diskOf({ dataFolder, diskReserveMb }: Config) {
  const reserveBytes = diskReserveMb === null ? null : diskReserveMb * 1024 * 1024;
  return { folder: clusterFolderOf(dataFolder), reserveBytes };
}
