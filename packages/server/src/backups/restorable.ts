// Which moments can be restored. Restores, the list of backups and snapshots all ask here, so they give the same answer.
import { parseLsn, segmentName } from '../postgres/replication/lsn.ts';
import { chainOf } from './repository/descriptions.ts';
import type { BackupDescription, Repository } from './repository/repository.ts';
import { continuousEnd, listSegments, type StoredSegment, storedEnd } from './wal/wal-archive.ts';

/** A backup that is there with its ancestors, and the WAL after it. */
export type Restorable = Readonly<{
  /** The full backup first, `tip` last. */
  chain: readonly BackupDescription[];
  tip: BackupDescription;
  /** WAL from the start of the tip up to the end of what is stored without a gap. */
  from: bigint;
  end: bigint;
  /** When the last of this WAL was stored. */
  storedAt: Date;
  /** Nothing will follow this WAL: there is a gap after it, or the server goes on with another timeline. */
  isClosed: boolean;
}>;

/** Both ends can be restored, and every moment in between. */
export type Range = { from: Date; to: Date };

/** The segments of each timeline. */
export type StoredWal = ReadonlyMap<number, readonly StoredSegment[]>;

/** Between the clocks of PostgreSQL and of the storage, and between a commit and its storing. */
export const doubtMs = 10_000;

export async function listWal(
  repository: Repository,
  backups: readonly BackupDescription[],
  signal?: AbortSignal,
): Promise<StoredWal> {
  const wal = new Map<number, StoredSegment[]>();
  for (const { timeline } of backups)
    if (!wal.has(timeline)) wal.set(timeline, await listSegments(repository, timeline, { signal }));
  return wal;
}

/**
 * In the order of `backups`. `timeline`: of the server whose past is wanted. Later ones are those of a copy that was restored
 * from these backups and stores into the same place. Earlier ones are the server's own, from before it was restored.
 */
export function listRestorable(
  backups: readonly BackupDescription[],
  wal: StoredWal,
  timeline = Math.max(...backups.map((backup) => backup.timeline)),
): Restorable[] {
  return backups.flatMap((tip) => {
    const chain = chainOf(backups, tip);
    if (!chain || tip.timeline > timeline) return [];
    const segments = wal.get(tip.timeline) ?? [];
    const from = parseLsn(tip.start_lsn);
    const end = continuousEnd(segments, from, tip.timeline, tip.segment_bytes);
    // Kept for its descendants alone, or the WAL that makes it consistent is not stored yet.
    if (end === null || end < parseLsn(tip.end_lsn)) return [];
    const last = segmentName(tip.timeline, end - 1n, tip.segment_bytes);
    const storedAt = segments.find(({ name }) => name === last)?.storedAt ?? new Date(tip.ended_at);
    const hasGap = end < (storedEnd(segments, tip.segment_bytes) ?? end);
    return [{ chain, tip, from, end, storedAt, isClosed: hasGap || tip.timeline < timeline }];
  });
}

/** What a restore of this moment begins with. `at`: null for the last one that is stored. */
export function findRestorable(restorable: readonly Restorable[], at: Date | null): Restorable | null {
  if (at === null) return restorable.at(-1) ?? null;
  const reaches = ({ tip, storedAt, isClosed }: Restorable) =>
    new Date(tip.ended_at) <= at && (!isClosed || at.getTime() <= storedAt.getTime() + doubtMs);
  return restorable.findLast(reaches) ?? null;
}

/** Oldest first. `present`: up to when WAL is stored that nothing has closed yet, if more is known than the storage tells. */
export function rangesOf(restorable: readonly Restorable[], present: Date | null = null): Range[] {
  const ranges: Range[] = [];
  const found = restorable.map(({ tip, storedAt, isClosed }) => {
    const from = new Date(tip.ended_at);
    const to = (isClosed ? null : present) ?? storedAt;
    return { from, to: to < from ? from : to };
  });
  for (const { from, to } of found.sort((a, b) => a.from.getTime() - b.from.getTime())) {
    const last = ranges.at(-1);
    if (!last || from > last.to) ranges.push({ from, to });
    else if (to > last.to) last.to = to;
  }
  return ranges;
}
