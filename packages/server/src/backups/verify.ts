// Reads back what is stored: every object of the backups is decrypted, and the WAL since each of them must have no gap.
// That finds changed bytes, missing objects and a wrong key. Only a restore proves more.
import { formatLsn, parseLsn, segmentName } from '../postgres/replication/lsn.ts';
import { chainOf, isDamage, isMissing, listBackups, readBackups } from './repository/descriptions.ts';
import { DecryptionError } from './repository/encryption.ts';
import { type BackupDescription, getObject, names, type Repository } from './repository/repository.ts';
import { readTarHeader } from './repository/tar-parts.ts';
import { continuousEnd, listSegments, readSegment } from './wal/wal-archive.ts';

export type Verified = { backups: number; segments: number; bytes: number; problems: string[] };

/** Problems are collected, at most this many. A storage that cannot be read is not a problem of a backup: it rejects. */
const maxProblems = 50;

export async function verify(
  repository: Repository,
  { signal, progress = () => {} }: { signal: AbortSignal; progress?: (fraction: number) => void },
): Promise<Verified> {
  const problems: string[] = [];
  let bytes = 0;
  /** `isPruned`: pruning goes on meanwhile, and what it has deleted is not missing. */
  const check = async (what: string, act: () => Promise<string | null>, isPruned: () => Promise<boolean>) => {
    const problem = await act().catch((error: unknown) => {
      if (!isDamage(error) && !isMissing(error)) throw error;
      return (error as Error).message;
    });
    signal.throwIfAborted();
    if (problem === null || problems.length >= maxProblems || (await isPruned())) return;
    problems.push(`${what}: ${problem}`);
  };

  const { backups, damaged } = await readBackups(repository, signal);
  for (const { id, problem } of damaged.slice(0, maxProblems)) problems.push(`${id}/backup: ${problem}`);
  const objects = backups.flatMap((backup) =>
    [...backup.parts, backup.manifest].map((part) => ({ backup, part })),
  );
  const walOf = await listWal(repository, backups, signal);
  const segments = walOf.flatMap(({ needed }) => needed);
  let done = 0;
  const step = () => progress(++done / (objects.length + segments.length + 1));

  for (const backup of backups) {
    if (chainOf(backups, backup) === null)
      problems.push(`${backup.id}: a backup that it needs is missing or damaged`);
  }
  for (const { backup, part } of objects) {
    const read = async () => {
      const counted = await readPart(repository, names.part(repository, backup.id, part.name), signal);
      bytes += counted;
      return counted === part.bytes ? null : `it has ${counted} bytes instead of ${part.bytes}`;
    };
    await check(`${backup.id}/${part.name}`, read, () => isBackupPruned(repository, backup.id));
    step();
  }
  for (const { problem } of walOf) if (problem !== null) problems.push(problem);
  for (const { name, segmentBytes } of segments) {
    const read = async () => {
      const content = await readSegment(repository, name, segmentBytes, signal);
      bytes += content?.length ?? 0;
      return content === null ? 'it is missing' : null;
    };
    await check(`WAL ${name}`, read, () => isWalPruned(repository, name, signal));
    step();
  }
  return { backups: backups.length, segments: segments.length, bytes, problems };
}

async function isBackupPruned(repository: Repository, id: string): Promise<boolean> {
  return (await listBackups(repository)).every((backup) => backup.id !== id);
}

/** It lies before all WAL that is stored now, and the backups that are left lack none. */
async function isWalPruned(repository: Repository, name: string, signal: AbortSignal): Promise<boolean> {
  const walOf = await listWal(repository, await listBackups(repository), signal);
  const [first] = walOf.flatMap(({ needed }) => needed);
  return walOf.every(({ problem }) => problem === null) && (first === undefined || name < first.name);
}

/** Reads an object to its end. Of a tar, the headers must fit the content. */
async function readPart(repository: Repository, name: string, signal: AbortSignal): Promise<number> {
  let bytes = 0;
  let left = 0;
  let header = Buffer.alloc(0);
  const isTar = name.endsWith('.tar');
  for await (const piece of getObject(repository, name, signal)) {
    bytes += piece.length;
    for (let at = 0; isTar && at < piece.length; ) {
      if (left > 0) {
        const skipped = Math.min(left, piece.length - at);
        left -= skipped;
        at += skipped;
        continue;
      }
      const taken = piece.subarray(at, at + 512 - header.length);
      header = Buffer.concat([header, taken]);
      at += taken.length;
      if (header.length < 512) continue;
      left = Math.ceil(readTarHeader(header).size / 512) * 512;
      header = Buffer.alloc(0);
    }
  }
  if (left > 0 || header.length > 0) throw new DecryptionError('damaged', `${name} ends inside an entry.`);
  return bytes;
}

/** For each timeline, the segments since its oldest backup, and whether a backup's own WAL has a gap. */
async function listWal(repository: Repository, backups: readonly BackupDescription[], signal: AbortSignal) {
  const timelines = [...new Set(backups.map(({ timeline }) => timeline))];
  return Promise.all(
    timelines.map(async (timeline) => {
      const own = backups.filter((backup) => backup.timeline === timeline);
      const segmentBytes = own[0]?.segment_bytes ?? 0;
      const segments = await listSegments(repository, timeline, { signal });
      const parents = new Set(own.map(({ parent }) => parent));
      const broken = own.find(({ id, start_lsn, end_lsn }) => {
        const start = parseLsn(start_lsn);
        // Kept only for its descendants: the WAL before the oldest of those that can be restored is pruned.
        if (parents.has(id) && segmentName(timeline, start, segmentBytes) < (segments[0]?.name ?? ''))
          return false;
        const end = continuousEnd(segments, start, timeline, segmentBytes);
        return end === null || end < parseLsn(end_lsn);
      });
      const needed = segments.map(({ name }) => ({ name, segmentBytes }));
      const problem = broken
        ? `${broken.id}: WAL up to ${formatLsn(parseLsn(broken.end_lsn))} is missing`
        : null;
      return { needed, problem };
    }),
  );
}
