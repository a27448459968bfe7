// The backups of all servers of the installation. They share one storage, in which each server has its own prefix: its
// system identifier. So what is stored of a server can be found without the server.
import type { Control } from '../control/control.ts';
import { errors } from '../errors/errors.ts';
import { sql } from '../postgres/sql.ts';
import type { Fleet, Member } from '../servers/fleet.ts';
import type { Server } from '../servers/server.ts';
import { type BackupOptions, type Backups, type Look, openBackups } from './backups.ts';
import { isOnDataDisk } from './data-disk.ts';
import { describeFailure } from './failure.ts';
import type { NotBackedUp } from './problem.ts';
import { pruneRemoved } from './removed.ts';
import { readBackups } from './repository/descriptions.ts';
import { openIdentity } from './repository/identity.ts';
import { openRepository, type Repository } from './repository/repository.ts';
import { listRestorable, listWal } from './restorable.ts';
import { guardStorage } from './storage/guard.ts';
import { openStorage } from './storage/open.ts';

/** What is stored, by the storage alone. */
export type Stored = Omit<Look, 'usable'>;

export type FleetBackups = {
  options: BackupOptions;
  place: string;
  /** If that disk is lost, so are the backups. */
  isOnDataDisk: boolean;
  first: Backups;
  of(server: Server): Backups;
  /** Asks the server. null: it can be backed up. */
  findProblem(server: Server): Promise<NotBackedUp | null>;
  /** Does not ask the server. null: its identity is not known. */
  repositoryOf(member: Member): Repository | null;
  /** `cluster`: a system identifier. */
  repositoryNamed(cluster: string): Repository;
  /** Deletes what is stored of servers that were removed long ago. */
  pruneRemoved(signal: AbortSignal): Promise<string[]>;
  /** The operator gives up the repository that was at this place. What is there now counts. */
  acceptRepository(): Promise<void>;
  close(): void;
};

type Deps = {
  control: Control;
  servers: Fleet;
  /** The data folder of the embedded PostgreSQL. null: the data is elsewhere. */
  dataFolder: string | null;
  now: () => number;
  onSlotLost: (server: Server) => void;
};

export function openFleetBackups(
  { control, servers, dataFolder, now, onSlotLost }: Deps,
  options: BackupOptions,
): FleetBackups {
  const place = openStorage(options.location, options.reserveBytes);
  const identity = openIdentity({
    control,
    storage: place,
    location: options.location,
    clusters: async () => servers.members().flatMap((member) => clusterOf(member) ?? []),
  });
  const storage = guardStorage(place, identity.wanted);
  const known = new WeakMap<Server, Backups>();
  const of = (server: Server): Backups => {
    const found = known.get(server) ?? openBackups({ control, server, storage, now, onSlotLost }, options);
    known.set(server, found);
    return found;
  };
  const repositoryNamed = (cluster: string) => openRepository(storage, servers.first.masterKey, cluster);
  return {
    options,
    place: storage.place,
    isOnDataDisk: isOnDataDisk(options.location, dataFolder),
    first: of(servers.first),
    of,
    findProblem: async (server) => {
      if (options.onlyFirst && !server.holdsControl) return onlyFirst;
      return findRefusal(server);
    },
    repositoryOf: (member) => {
      const cluster = clusterOf(member);
      return cluster === null ? null : repositoryNamed(cluster);
    },
    repositoryNamed,
    pruneRemoved: (signal) =>
      pruneRemoved({ control, storage }, { retentionDays: options.retentionDays, now: now() }, signal),
    acceptRepository: identity.accept,
    close: () => storage.close(),
  };
}

/** The system identifier of a server. null: it is not known. */
export function clusterOf({ row, server }: Member): string | null {
  return server?.systemIdentifier ?? row.systemIdentifier;
}

export const onlyFirst: NotBackedUp = {
  reason: 'ROWHOUSE_BACKUP_URL is not set, so only the first server is backed up.',
  hint: 'Set ROWHOUSE_BACKUP_URL to a place with room for the backups of all servers, and restart the service.',
};

/** Rejects if the server is not backed up. The reason is for the operator: callers with a key of a project come here, too. */
export async function requireBackups(backups: FleetBackups, server: Server): Promise<Backups> {
  // The first one is always tried: its failures are reported as such.
  const problem = server.holdsControl ? null : await backups.findProblem(server);
  if (!problem) return backups.of(server);
  throw errors.restoreUnavailable(
    'The server of this project is not backed up.',
    'The operator finds the reason with "rowhouse backup list". Export the project instead: GET …/export.',
  );
}

/** Backups are replication: PostgreSQL must allow it to our role, and must write enough into its WAL. */
export async function findRefusal({ maintenance }: Pick<Server, 'maintenance'>): Promise<NotBackedUp | null> {
  const [row] = await maintenance.query<{ role: string; replicates: boolean; level: string }>(sql`
    select rolname as role, rolsuper or rolreplication as replicates, current_setting('wal_level') as level
    from pg_roles where rolname = current_user`);
  if (!row) throw errors.unavailable('PostgreSQL does not report the current role.');
  if (!row.replicates) {
    return {
      reason: `The role "${row.role}" may not replicate.`,
      hint: `As a superuser: alter role "${row.role}" replication. Managed servers seldom allow it: use their own backups.`,
    };
  }
  if (row.level === 'minimal') {
    return {
      reason: 'The server writes too little into its WAL (wal_level = minimal).',
      hint: 'alter system set wal_level = replica, then restart PostgreSQL.',
    };
  }
  return null;
}

/** The server may be gone: the newest timeline in the storage is taken for its own. */
export async function lookAt(repository: Repository, signal?: AbortSignal): Promise<Stored> {
  const listed = await readBackups(repository, signal).catch((error: unknown) => {
    throw describeFailure(error);
  });
  const wal = await listWal(repository, listed.backups, signal);
  return { ...listed, restorable: listRestorable(listed.backups, wal) };
}
