// The descriptions of the backups in a repository (backups/README.md): which backups there are, and which of them need which.
import { parseLsn } from '../../postgres/replication/lsn.ts';
import { StorageError } from '../storage/storage.ts';
import { DecryptionError } from './encryption.ts';
import { type BackupDescription, names, type Repository, readObject } from './repository.ts';

/** Its description is there and cannot be read. Without it, neither this backup nor one that refers to it can be restored. */
export type DamagedBackup = { id: string; problem: string };
export type ListedBackups = { backups: BackupDescription[]; damaged: DamagedBackup[] };

/** How many descriptions are read at once: a list of 40 backups in S3 takes 40 requests. */
const readAtOnce = 8;
const idPattern = /^\d{8}T\d{9}Z-(full|incremental)$/;

/**
 * Whole backups, oldest first. One that is damaged hides no other one. Rejects if the storage cannot be read, or if nothing in
 * it was encrypted with this master key: then the key is wrong, not the storage.
 */
export async function readBackups(repository: Repository, signal?: AbortSignal): Promise<ListedBackups> {
  const ids = await listBackupIds(repository, signal);
  const backups: BackupDescription[] = [];
  const failures: { id: string; error: Error }[] = [];
  for (let at = 0; at < ids.length; at += readAtOnce) {
    const reading = ids.slice(at, at + readAtOnce).map(async (id) => {
      const read = await readDescription(repository, id, signal).catch((error: unknown) => {
        if (isMissing(error)) return null;
        if (!isDamage(error)) throw error;
        failures.push({ id, error });
        return null;
      });
      if (read) backups.push(read);
    });
    await Promise.all(reading);
  }
  const [first] = failures;
  const isWrongKey = failures.every(
    ({ error }) => error instanceof DecryptionError && error.problem === 'wrong_key',
  );
  if (first && backups.length === 0 && isWrongKey) throw first.error;
  // By position, not by time: clocks can be set back.
  const place = ({ timeline, start_lsn }: BackupDescription) =>
    (BigInt(timeline) << 64n) + parseLsn(start_lsn);
  const damaged = failures.map(({ id, error }) => ({ id, problem: error.message }));
  return {
    backups: backups.sort((a, b) => (place(a) < place(b) ? -1 : 1)),
    damaged: damaged.sort((a, b) => (a.id < b.id ? -1 : 1)),
  };
}

/** The folders of backups, whole or not, in the order of the time at which they began. Others are not ours. */
export async function listBackupIds(repository: Repository, signal?: AbortSignal): Promise<string[]> {
  // Not by listing all objects: a backup has one for each database.
  const folders = await repository.storage.folders(names.backups(repository), signal);
  return folders.filter((id) => idPattern.test(id)).sort();
}

export async function listBackups(repository: Repository): Promise<BackupDescription[]> {
  return (await readBackups(repository)).backups;
}

export async function readDescription(
  repository: Repository,
  id: string,
  signal?: AbortSignal,
): Promise<BackupDescription> {
  const name = names.backup(repository, id);
  const text = (await readObject(repository, name, signal && { signal })).toString('utf8');
  const backup = parseDescription(name, text);
  if (backup.format !== 1)
    throw new DescriptionError(`${name} has format ${backup.format}, which this version does not know.`);
  return backup;
}

function parseDescription(name: string, text: string): BackupDescription {
  try {
    return JSON.parse(text) as BackupDescription;
  } catch {
    throw new DescriptionError(`${name} is not JSON.`);
  }
}

class DescriptionError extends Error {
  override readonly name = 'DescriptionError';
}

/** The object is there and cannot be what was written. EIO: a part of the disk cannot be read. */
export function isDamage(error: unknown): error is Error {
  if (error instanceof DecryptionError || error instanceof DescriptionError) return true;
  return error instanceof StorageError && (error.cause as NodeJS.ErrnoException | undefined)?.code === 'EIO';
}

export function isMissing(error: unknown): boolean {
  return error instanceof StorageError && error.problem === 'missing';
}

/** A backup and its ancestors, the full one first. null: one is missing. */
export function chainOf(
  backups: readonly BackupDescription[],
  tip: BackupDescription,
): BackupDescription[] | null {
  const chain = [tip];
  for (let at = tip; at.parent !== null; ) {
    const parent = backups.find(({ id }) => id === at.parent);
    if (!parent || chain.includes(parent)) return null;
    chain.unshift(parent);
    at = parent;
  }
  return chain;
}
