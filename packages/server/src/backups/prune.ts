// Deletes what is older than the retention, and never what a kept backup needs (README.md, Deleting).
import { parseLsn, segmentName } from '../postgres/replication/lsn.ts';
import { chainOf, listBackupIds, readBackups } from './repository/descriptions.ts';
import {
  type BackupDescription,
  names,
  namesOf,
  type Repository,
  timelineText,
} from './repository/repository.ts';
import { coveringPieces, listSegments, pieceName } from './wal/wal-archive.ts';

export type Pruned = { backups: string[]; segments: number; unfinished: number };
export type PrunePlan = {
  deleted: BackupDescription[];
  /** Ids. Their descriptions cannot be read, and nothing that is kept can need them. */
  deletedDamaged: string[];
  /** WAL before this position is not needed. null: no WAL may be deleted. */
  walFrom: { timeline: number; lsn: bigint } | null;
};

const dayMs = 24 * 60 * 60 * 1000;

/**
 * `backups`: whole ones, oldest first. `damaged`: ids of backups whose descriptions cannot be read. They may become readable
 * again, and what they need is not known. So no backup is deleted while one of them could be needed.
 */
export function planPruning(
  backups: readonly BackupDescription[],
  horizon: Date,
  damaged: readonly string[] = [],
): PrunePlan {
  const kept = new Set<BackupDescription>();
  const old = backups.filter((backup) => new Date(backup.ended_at) <= horizon);
  // An incremental backup whose ancestors are missing cannot be the one that the horizon needs.
  const base = old.findLast((backup) => chainOf(backups, backup) !== null);
  if (!base) return { deleted: [], deletedDamaged: [], walFrom: null };
  const tips = [base, ...backups.slice(backups.indexOf(base) + 1)];
  for (const tip of tips) for (const backup of chainOf(backups, tip) ?? [tip]) kept.add(backup);
  // An id begins with the time of the backup.
  const isNeeded = (id: string) =>
    id > base.id || [...kept].some((backup) => descendsFrom(backups, backup, id));
  // A backup that is newer than the base does not need WAL from before the base, whether it can be read or not.
  const walFrom = { timeline: base.timeline, lsn: parseLsn(base.start_lsn) };
  if (damaged.some(isNeeded)) return { deleted: [], deletedDamaged: [], walFrom };
  return {
    deleted: backups.filter((backup) => !kept.has(backup)),
    deletedDamaged: [...damaged],
    walFrom,
  };
}

/** `id` need not be one of `backups`. */
function descendsFrom(backups: readonly BackupDescription[], backup: BackupDescription, id: string): boolean {
  const passed = new Set<string>();
  for (let { parent } = backup; parent !== null && !passed.has(parent); ) {
    if (parent === id) return true;
    passed.add(parent);
    const next = parent;
    parent = backups.find((one) => one.id === next)?.parent ?? null;
  }
  return false;
}

type Pruning = {
  retentionDays: number;
  now: number;
  /** Its parts have no description yet, and one part can take longer than a day. */
  isBackupRunning: boolean;
};

export async function prune(
  repository: Repository,
  { retentionDays, now, isBackupRunning }: Pruning,
  signal?: AbortSignal,
): Promise<Pruned> {
  const { backups, damaged } = await readBackups(repository, signal);
  const unreadable = damaged.map(({ id }) => id);
  const horizon = new Date(now - retentionDays * dayMs);
  const { deleted, deletedDamaged, walFrom } = planPruning(backups, horizon, unreadable);
  const spent = [...deleted.map(({ id }) => id), ...deletedDamaged];
  for (const id of spent) await deleteBackup(repository, id, signal);
  const segments = walFrom ? await deleteWal(repository, walFrom, backups, signal) : 0;
  const pruned = { backups: spent, segments };
  if (isBackupRunning) return { ...pruned, unfinished: 0 };
  const whole = new Set([...backups.map(({ id }) => id), ...unreadable]);
  const interrupted = await deleteInterrupted(repository, whole, now, signal);
  // Only uploads of this server are removed: backups of others may be running.
  const { storage, cluster } = repository;
  const uploads = await storage.removeUnfinished(`${cluster}/`, new Date(now - dayMs), signal);
  return { ...pruned, unfinished: interrupted + uploads };
}

/** The description first: from then on the backup does not exist, whatever happens to the rest. */
async function deleteBackup(repository: Repository, id: string, signal?: AbortSignal): Promise<void> {
  const { storage } = repository;
  await storage.delete(names.backup(repository, id), signal);
  await storage.deleteAll(namesOf(storage.list(names.part(repository, id, ''), signal)), signal);
}

/** Timelines before that of the oldest backup are not needed by any. */
async function deleteWal(
  repository: Repository,
  { timeline, lsn }: { timeline: number; lsn: bigint },
  backups: readonly BackupDescription[],
  signal?: AbortSignal,
): Promise<number> {
  const { storage, cluster } = repository;
  const segmentBytes = backups.at(-1)?.segment_bytes ?? 0;
  const folder = names.wal(repository, timeline);
  const first = segmentName(timeline, lsn, segmentBytes);
  async function* spent() {
    for await (const name of namesOf(storage.list(`${cluster}/wal/`, signal))) {
      const [, found = '', file = ''] = /\/wal\/([0-9A-F]{8})\/(.+)$/.exec(name) ?? [];
      const isEarlier = found < timelineText(timeline) && found !== '';
      if (isEarlier || (name.startsWith(folder) && /^[0-9A-F]{24}/.test(file) && file < first)) yield name;
    }
  }
  const deleted = await storage.deleteAll(spent(), signal);
  return deleted + (await deleteSpentPieces(repository, timeline, signal));
}

/** Pieces that the whole segment or a larger piece contains, which a crash left behind. */
async function deleteSpentPieces(
  repository: Repository,
  timeline: number,
  signal?: AbortSignal,
): Promise<number> {
  const segments = await listSegments(repository, timeline, { signal });
  // The last segment is being written.
  const spent = segments.slice(0, -1).flatMap(({ name, isWhole, pieces }) => {
    const needed = isWhole ? [] : coveringPieces(pieces);
    return pieces
      .filter((one) => !needed.includes(one))
      .map((piece) => names.wal(repository, timeline) + pieceName(name, piece));
  });
  return repository.storage.deleteAll(spent, signal);
}

/** Backups without a description that began over a day ago. */
async function deleteInterrupted(
  repository: Repository,
  whole: ReadonlySet<string>,
  now: number,
  signal?: AbortSignal,
): Promise<number> {
  const { storage } = repository;
  let deleted = 0;
  for (const id of await listBackupIds(repository, signal)) {
    if (whole.has(id)) continue;
    let newest = 0;
    let isWhole = false;
    for await (const { name, storedAt } of storage.list(names.part(repository, id, ''), signal)) {
      isWhole ||= name === names.backup(repository, id);
      newest = Math.max(newest, storedAt.getTime());
    }
    if (isWhole || newest >= now - dayMs) continue;
    await deleteBackup(repository, id, signal);
    deleted++;
  }
  return deleted;
}
