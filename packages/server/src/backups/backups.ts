// Backups of one server: what requests may ask for, and what the process with the background work does by itself. A base
// backup can run in any process, one at a time; only the elected process receives WAL, and the slot admits only one.

import type { Control } from '../control/control.ts';
import { isHeld, locks, tryLock } from '../control/lock-names.ts';
import { findSetting, putSetting, settingOf } from '../control/settings.ts';
import { errors } from '../errors/errors.ts';
import { parseLsn, segmentName } from '../postgres/replication/lsn.ts';
import { sql } from '../postgres/sql.ts';
import { isEmbedded } from '../servers/embedded/embedded.ts';
import type { Server } from '../servers/server.ts';
import type { BackupLocation } from '../settings/backup-url.ts';
import { describeFailure } from './failure.ts';
import { findProblem, type NotBackedUp, type ProblemName, recordProblem } from './problem.ts';
import { type Pruned, prune } from './prune.ts';
import { chainOf, isDamage, isMissing, type ListedBackups, readBackups } from './repository/descriptions.ts';
import { type BackupDescription, openRepository, type Repository } from './repository/repository.ts';
import { listRestorable, listWal, type Restorable } from './restorable.ts';
import type { Storage } from './storage/storage.ts';
import { takeBaseBackup } from './take/base-backup.ts';
import { refuseTablespaces } from './take/tablespaces.ts';
import { type Verified, verify } from './verify.ts';
import { ensureSlot, findSlot, type SlotState, slotName } from './wal/slot.ts';
import { continuousEnd, listSegments } from './wal/wal-archive.ts';

export type BackupOptions = {
  location: BackupLocation;
  /** Further servers are not backed up. */
  onlyFirst?: boolean;
  /** The free space that stays on the disk of a folder. null: the default, 0: none. */
  reserveBytes: number | null;
  retentionDays: number;
  /** MB per second. 0: as fast as possible. */
  rateMb: number;
};

type Run = { signal: AbortSignal; progress: (fraction: number) => void };

/** What is in the repository, as of one look. All lists have the oldest first. */
export type Look = ListedBackups & {
  /** Backups from which recovery reaches the present. */
  usable: BackupDescription[];
  /** Everything that can be restored, the past of this server before it was restored itself included. */
  restorable: Restorable[];
};

export type BackupStatus = Look & {
  slot: SlotState | null;
  /** When the newest stored WAL was stored. null: none is. */
  newestStoredAt: Date | null;
  lastVerifiedAt: string | null;
  /** Why nothing can be stored now. */
  problem: NotBackedUp | null;
  now: Date;
};

/** The server's identity and present position. */
export type Position = { cluster: string; timeline: number; segmentBytes: number; lsn: bigint };

export type Backups = {
  options: BackupOptions;
  server: Server;
  slot: string;
  place: string;
  repository(): Promise<Repository>;
  position(): Promise<Position>;
  status(): Promise<BackupStatus>;
  /** Rejects if the storage is not the repository any more. */
  checkRepository(): Promise<void>;
  /** For all processes, and for doctor. null: it has ended. */
  recordProblem(name: ProblemName, error: unknown): Promise<void>;
  /** Creates the replication slot where it is missing or was given up. */
  prepareSlot(): Promise<{ wasLost: boolean }>;
  /** Rejects if there is something on the server that a restore could not bring back. */
  checkServer(): Promise<void>;
  /** When all backups were last read back without a problem. null: never. */
  lastVerifiedAt(): Promise<string | null>;
  /** When the last backup that any process has taken ended. null: none was taken. */
  lastTakenAt(): Promise<number | null>;
  /** `incremental` becomes full if there is nothing that it could refer to. */
  take(kind: 'full' | 'incremental', run: Run): Promise<BackupDescription>;
  prune(signal: AbortSignal): Promise<Pruned>;
  verify(run: Run): Promise<Verified>;
  look(): Promise<Look>;
};

type Deps = {
  control: Control;
  server: Server;
  /** All servers store into one. */
  storage: Storage;
  now: () => number;
  /** PostgreSQL has given up the slot: WAL is missing in the repository. */
  onSlotLost: (server: Server) => void;
};

export function openBackups(
  { control, server, storage, now, onSlotLost }: Deps,
  options: BackupOptions,
): Backups {
  const { retentionDays, rateMb } = options;
  const { maintenance, address, masterKey, installation } = server;
  const slot = slotName(installation);
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
      cluster: row.cluster,
      timeline: row.timeline,
      segmentBytes: Number(row.segment),
      lsn: parseLsn(row.lsn),
    };
  };

  const repository = async (): Promise<Repository> => {
    cluster ??= (await position()).cluster;
    return openRepository(storage, masterKey, cluster);
  };

  const look = async (): Promise<Look> => {
    const opened = await repository();
    const { timeline, segmentBytes } = await position();
    const listed = await readBackups(opened).catch((error: unknown) => {
      throw describeFailure(error);
    });
    const { backups } = listed;
    const wal = await listWal(opened, backups);
    const segments = wal.get(timeline) ?? [];
    const last = segments.at(-1)?.name ?? '';
    // WAL before this is stored, or lost.
    const kept = (await findSlot(maintenance, slot))?.restart ?? null;
    const keptFrom = kept === null ? null : kept - (kept % BigInt(segmentBytes));
    const usable = backups.filter((backup) => {
      const start = parseLsn(backup.start_lsn);
      if (backup.timeline !== timeline || keptFrom === null || chainOf(backups, backup) === null)
        return false;
      // The WAL of a backup that has just been taken may not be stored yet.
      if (segmentName(timeline, start, segmentBytes) > last) return start >= keptFrom;
      const end = continuousEnd(segments, start, timeline, segmentBytes);
      return end !== null && segmentName(timeline, end - 1n, segmentBytes) >= last && end >= keptFrom;
    });
    const stored = listRestorable(backups, wal, timeline);
    const coming = usable.filter((backup) => stored.every(({ tip }) => tip !== backup));
    return { ...listed, usable, restorable: [...stored, ...coming.flatMap((one) => soon(backups, one))] };
  };

  const prepareSlot = async () => {
    const { wasLost } = await ensureSlot(maintenance, slot);
    if (wasLost) onSlotLost(server);
    return { wasLost };
  };

  const lastVerifiedAt = () => findSetting(control, settingOf('backup_verified_at', server));

  const checkServer = () => refuseTablespaces(maintenance);

  const take: Backups['take'] = (kind, run) =>
    exclusively({ control, server }, run.signal, async (signal) => {
      await checkServer();
      // Before the backup begins: from here on PostgreSQL keeps the WAL that it needs.
      await prepareSlot();
      const parent = kind === 'incremental' ? ((await look()).usable.at(-1) ?? null) : null;
      const request = {
        repository: await repository(),
        address,
        maintenance,
        progress: run.progress,
        signal,
        maxRateKb: rateMb === 0 ? null : rateMb * 1024,
        isEmbedded: isEmbedded(address, masterKey),
      };
      const backup = await takeBaseBackup({ ...request, parent }).catch((error: unknown) => {
        // PostgreSQL may not have the summaries of the WAL since the parent: they were off, or are older than it keeps. Or the
        // list of the parent's files, which PostgreSQL needs, is damaged: then no incremental backup of it will succeed.
        const isUseless = lacksSummaries(error) || isDamage(error) || isMissing(error);
        if (!parent || !isUseless) throw error;
        return takeBaseBackup({ ...request, parent: null });
      });
      await putSetting(control, settingOf('backup_taken_at', server), backup.ended_at);
      await recordProblem(control, server, 'backup_problem', null);
      return backup;
    }).catch((error: unknown) => {
      throw describeFailure(error);
    });

  return {
    options,
    server,
    slot,
    place: storage.place,
    repository,
    position,
    look,
    prepareSlot,
    checkServer,
    checkRepository: () => storage.check(),
    recordProblem: (name, error) => recordProblem(control, server, name, error),
    take,
    lastVerifiedAt,
    lastTakenAt: async () =>
      Date.parse((await findSetting(control, settingOf('backup_taken_at', server))) ?? '') || null,
    status: async () => {
      const opened = await repository();
      const state = await findSlot(maintenance, slot);
      const { timeline, segmentBytes } = await position();
      return {
        ...(await look()),
        slot: state,
        newestStoredAt: await newestStored(opened, timeline, segmentBytes, state?.restart ?? null),
        lastVerifiedAt: await lastVerifiedAt(),
        problem: await findProblem(control, server),
        now: new Date(now()),
      };
    },
    prune: async (signal) => {
      // One that begins after this has no parts that are old.
      const isBackupRunning = await isRunning({ control, server });
      return prune(await repository(), { retentionDays, now: now(), isBackupRunning }, signal).catch(
        (error: unknown) => {
          throw describeFailure(error);
        },
      );
    },
    verify: async (run) => {
      const startedAt = new Date(now()).toISOString();
      const verified = await verify(await repository(), run).catch((error: unknown) => {
        throw describeFailure(error);
      });
      if (verified.problems.length === 0)
        await putSetting(control, settingOf('backup_verified_at', server), startedAt);
      return verified;
    },
  };
}

/** The WAL that makes the backup consistent is kept, but not stored yet: a restore waits a moment for it. */
function soon(backups: readonly BackupDescription[], tip: BackupDescription): Restorable[] {
  const chain = chainOf(backups, tip) ?? [];
  const from = parseLsn(tip.start_lsn);
  return [{ chain, tip, from, end: from, storedAt: new Date(tip.ended_at), isClosed: false }];
}

type Locked = { control: Control; server: Server };

/** One base backup of a server at a time, of all processes. The lock is given up when the process or its connection dies. */
function exclusively<T>(
  { control, server }: Locked,
  signal: AbortSignal,
  act: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return control.session(async (session, lost) => {
    if (!(await tryLock(session, locks.backup(server)))) {
      throw errors.conflict(
        'A backup is already running.',
        'GET /api/dbaas/v2/backups lists it when it is done.',
      );
    }
    return act(AbortSignal.any([signal, lost]));
  });
}

async function isRunning({ control, server }: Locked): Promise<boolean> {
  const rows = await control.query(sql`select where ${isHeld(locks.backup(server))}`);
  return rows.length > 0;
}

/** object_not_in_prerequisite_state by BASE_BACKUP, or a syntax error by a server before PostgreSQL 17. */
function lacksSummaries(error: unknown): boolean {
  return ['55000', '42601'].includes((error as { sqlstate?: string }).sqlstate ?? '');
}

/** The segment up to which the slot was told that WAL is stored, or the one before. */
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
