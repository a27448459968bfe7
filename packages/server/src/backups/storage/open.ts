// Opens the storage that ROWHOUSE_BACKUP_URL names.
import type { BackupLocation } from '../../settings/backup-url.ts';
import { openFolder } from './folder.ts';
import { guardStorage } from './guard.ts';
import { openS3 } from './s3.ts';
import type { Storage, StorageSource } from './storage.ts';

/** `reserveBytes`: of the disk of a folder. null: the default, 0: none. */
export function openStorage(location: BackupLocation, reserveBytes: number | null = 0): Storage {
  return location.kind === 'folder' ? openFolder(location.folder, reserveBytes) : openS3(location);
}

/** In a thread: what another one has opened. */
export function openSource({ location, reserveBytes, repository }: StorageSource): Storage {
  const storage = openStorage(location, reserveBytes);
  return repository === null ? storage : guardStorage(storage, async () => repository);
}
