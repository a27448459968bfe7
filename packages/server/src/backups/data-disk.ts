// Whether backups are on the disk of the data. If that disk is lost, so are both.
import { statSync } from 'node:fs';
import path from 'node:path';
import type { BackupLocation } from '../settings/backup-url.ts';

/**
 * By the device of the folders, so two partitions of one disk count as two disks. `dataFolder`: of the embedded PostgreSQL.
 * null: the data is elsewhere.
 */
export function isOnDataDisk(location: BackupLocation, dataFolder: string | null): boolean {
  if (location.kind !== 'folder' || dataFolder === null) return false;
  const device = deviceOf(location.folder);
  return device !== null && device === deviceOf(dataFolder);
}

/** A folder that does not exist yet will be on the disk of the nearest folder above it. */
function deviceOf(folder: string): bigint | null {
  for (let at = path.resolve(folder); ; at = path.dirname(at)) {
    try {
      return statSync(at, { bigint: true }).dev;
    } catch (error) {
      const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
      if (!isMissing || at === path.dirname(at)) return null;
    }
  }
}
