// Backups of one server: what requests may ask for, and what the process with the background work does by itself. A base
// backup can run in any process, one at a time; only the elected process receives WAL, and the slot admits only one.
import type { BackupLocation } from '../backup-url.ts';
import type { Control } from '../control/control.ts';
import { findSetting, putSetting } from '../control/settings.ts';
import type { Server } from '../engine/servers.ts';
import { errors } from '../errors.ts';
import { parseLsn, segmentName } from '../postgres/lsn.ts';
import { sql } from '../postgres/sql.ts';
import { takeBaseBackup } from './base-backup.ts';
import { describeFailure } from './failure.ts';
import { type Pruned, prune } from './prune.ts';
import {
  type BackupDescription,
  chainOf,
  listBackups,
  openRepository,
  type Repository,
} from './repository.ts';
import { ensureSlot, findSlot, type SlotState, slotName } from './slot.ts';
import { openStorage } from './storage/open.ts';
import { refuseTablespaces } from './tablespaces.ts';
import { type Verified, verify } from './verify.ts';
import { continuousEnd, listSegments } from './wal-archive.ts';

export type BackupOptions = {
  location: BackupLocation;
  /** Of the disk of a folder. null: the default, 0: none. */
  reserveBytes: number | null;
  retentionDays: number;
  /** MB per second. 0: as fast as possible. */
  rateMb: number;
};

type Run = { signal: AbortSignal; progress: (fraction: number) => void };

export type BackupStatus = {
  backups: BackupDescription[];
  slot: SlotState | null;
  /** When the newest stored WAL was stored. null: none is. */
  newestStoredAt: Date | null;
  lastVerifiedAt: string | null;
  now: Date;
};

/** The server's identity and present position. */
export type Position = { cluster: string; timeline: number; segmentBytes: number; lsn: bigint };

export type Backups = {
  options: BackupOptions;
  slot: string;
  place: string;
  repository(): Promise<Repository>;
  position(): Promise<Position>;
  status(): Promise<BackupStatus>;
  /** Creates the replication slot where it is missing or was given up. */
  prepareSlot(): Promise<{ wasLost: boolean }>;
  /** Rejects if there is something on the server that a restore could not bring back. */
  checkServer(): Promise<void>;
  /** `incremental` becomes full if there is nothing that it could refer to. */
  take(kind: 'full' | 'incremental', run: Run): Promise<BackupDescription>;
  prune(signal: AbortSignal): Promise<Pruned>;
  verify(run: Run): Promise<Verified>;
  /** Whole backups from which recovery reaches the present, oldest first. */
  usable(): Promise<BackupDescription[]>;
  close(): void;
};

type Deps = {
  control: Control;
  server: Server;
  now: () => number;
  /** PostgreSQL has given up the slot: WAL is missing in the repository. */
  onSlotLost: () => void;
};

export function openBackups({ control, server, now, onSlotLost }: Deps, options: BackupOptions): Backups {
  const { location, reserveBytes, retentionDays, rateMb } = options;
  const { maintenance, address, masterKey, installation } = server;
  const storage = openStorage(location, reserveBytes);
  const slot = slotName(installation);
  const known = new Map<string, BackupDescription>();
  let cluster: string | null = null;

  const position = async (): Promise<Position> => {
    const [row] = await maintenance.query<{
      cluster: string;
      timeline: number;
      segment: string;
      lsn: string;
    }>(sql`
      select (select system_identifier::text from pg_control_system()) as cluster,
             (select timeline_id from pg_control_checkpoint()) as timeline,
             (select setting from pg_settings where name = 'wal_segment_size') as segment,
             pg_current_wal_flush_lsn()::text as lsn`);
    if (!row) throw new Error('PostgreSQL does not identify itself.');
    return {
      ...{ cluster: row.cluster, timeline: row.timeline, segmentBytes: Number(row.segment) },
      lsn: parseLsn(row.lsn),
    };
  };

  const repository = async (): Promise<Repository> => {
    cluster ??= (await position()).cluster;
    return openRepository(storage, masterKey, cluster);
  };

  const usable = async (): Promise<BackupDescription[]> => {
    const opened = await repository();
    const { timeline, segmentBytes } = await position();
    const backups = (await listBackups(opened, known)).filter((backup) => backup.timeline === timeline);
    const segments = await listSegments(opened, timeline);
    const last = segments.at(-1)?.name ?? '';
    // WAL before this is stored, or lost.
    const kept = (await findSlot(maintenance, slot))?.restart ?? null;
    const keptFrom = kept === null ? null : kept - (kept % BigInt(segmentBytes));
    return backups.filter((backup) => {
      const start = parseLsn(backup.start_lsn);
      if (keptFrom === null || chainOf(backups, backup) === null) return false;
      // The WAL of a backup that has just been taken may not be stored yet.
      if (segmentName(timeline, start, segmentBytes) > last) return start >= keptFrom;
      const end = continuousEnd(segments, start, timeline, segmentBytes);
      return end !== null && segmentName(timeline, end - 1n, segmentBytes) >= last && end >= keptFrom;
    });
  };

  const prepareSlot = async () => {
    const { wasLost } = await ensureSlot(maintenance, slot);
    if (wasLost) onSlotLost();
    return { wasLost };
  };

  const checkServer = () => refuseTablespaces(maintenance);

  const take: Backups['take'] = (kind, run) =>
    exclusively(control, run.signal, async (signal) => {
      await checkServer();
      // Before the backup begins: from here on PostgreSQL keeps the WAL that it needs.
      await prepareSlot();
      const parent = kind === 'incremental' ? ((await usable()).at(-1) ?? null) : null;
      const request = {
        ...{ repository: await repository(), address, maintenance, progress: run.progress, signal },
        maxRateKb: rateMb === 0 ? null : rateMb * 1024,
      };
      const backup = await takeBaseBackup({ ...request, parent }).catch((error: unknown) => {
        // PostgreSQL may not have the summaries of the WAL since the parent: they were off, or are older than it keeps.
        if (!parent || !lacksSummaries(error)) throw error;
        return takeBaseBackup({ ...request, parent: null });
      });
      await prune(await repository(), { retentionDays, now: now() }, signal);
      return backup;
    }).catch((error: unknown) => {
      throw describeFailure(error);
    });

  return {
    options,
    slot,
    place: storage.place,
    repository,
    position,
    usable,
    prepareSlot,
    checkServer,
    take,
    status: async () => {
      const opened = await repository();
      const state = await findSlot(maintenance, slot);
      const { timeline, segmentBytes } = await position();
      const backups = await listBackups(opened, known).catch((error: unknown) => {
        throw describeFailure(error);
      });
      return {
        backups,
        slot: state,
        newestStoredAt: await newestStored(opened, timeline, segmentBytes, state?.restart ?? null),
        lastVerifiedAt: await findSetting(control, 'backup_verified_at'),
        now: new Date(now()),
      };
    },
    prune: async (signal) =>
      prune(await repository(), { retentionDays, now: now() }, signal).catch((error: unknown) => {
        throw describeFailure(error);
      }),
    verify: async (run) => {
      const startedAt = new Date(now()).toISOString();
      const verified = await verify(await repository(), run).catch((error: unknown) => {
        throw describeFailure(error);
      });
      if (verified.problems.length === 0) await putSetting(control, 'backup_verified_at', startedAt);
      return verified;
    },
    close: () => storage.close(),
  };
}

/** One base backup at a time, of all processes. The lock is given up when the process or its connection dies. */
function exclusively<T>(
  control: Control,
  signal: AbortSignal,
  act: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return control.session(async (session, lost) => {
    const [lock] = await session.query<{ mine: boolean }>(
      sql`select pg_try_advisory_lock(hashtext('rowhouse backup')) as mine`,
    );
    if (!lock?.mine) {
      throw errors.conflict(
        'A backup is running already.',
        'GET /api/dbaas/v2/backups lists it when it is done.',
      );
    }
    return act(AbortSignal.any([signal, lost]));
  });
}

/** object_not_in_prerequisite_state by BASE_BACKUP, or a syntax error by a server before PostgreSQL 17. */
function lacksSummaries(error: unknown): boolean {
  return ['55000', '42601'].includes((error as { sqlstate?: string }).sqlstate ?? '');
}

/** Of the segment up to which the slot was told that WAL is stored, or of the one before. */
async function newestStored(
  repository: Repository,
  timeline: number,
  segmentBytes: number,
  confirmed: bigint | null,
): Promise<Date | null> {
  if (confirmed === null) return null;
  for (const lsn of [confirmed, confirmed - BigInt(segmentBytes)]) {
    if (lsn < 0n) continue;
    const prefix = segmentName(timeline, lsn, segmentBytes);
    const [segment] = await listSegments(repository, timeline, { prefix });
    if (segment) return segment.storedAt;
  }
  return null;
}
