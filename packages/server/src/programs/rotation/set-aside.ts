// Backups that an earlier master key has encrypted: they are moved into a folder of their own, from which they can be restored
// with that key. In their old place, the service would find backups that it cannot read.
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readSync, renameSync } from 'node:fs';
import path from 'node:path';
import { backupKeyOf, keyIdOf } from '../../backups/repository/encryption.ts';
import type { BackupLocation } from '../../settings/backup-url.ts';

/** Returns the new place; null if there was nothing to move, or if the storage is not a folder. */
export function setAsideBackups(location: BackupLocation | null, from: Buffer): string | null {
  if (location?.kind !== 'folder' || !existsSync(location.folder)) return null;
  const { folder } = location;
  const { id } = backupKeyOf(from);
  // Other installations may have theirs in the same folder.
  const found = readdirSync(folder).filter(
    (name) => /^\d+$/.test(name) && isEncryptedWith(id, path.join(folder, name)),
  );
  if (found.length === 0) return null;
  const place = path.join(folder, `before-${new Date().toISOString().replace(/[:.]/g, '-')}`);
  mkdirSync(place, { mode: 0o700 });
  for (const name of found) renameSync(path.join(folder, name), path.join(place, name));
  return place;
}

function isEncryptedWith(id: Buffer, cluster: string): boolean {
  const base = path.join(cluster, 'base');
  if (!existsSync(base)) return false;
  return readdirSync(base).some((name) => {
    const file = path.join(base, name, 'backup');
    return existsSync(file) && keyIdOf(readStart(file))?.equals(id);
  });
}

function readStart(file: string): Buffer {
  const descriptor = openSync(file, 'r');
  try {
    const bytes = Buffer.alloc(64);
    return bytes.subarray(0, readSync(descriptor, bytes, 0, bytes.length, 0));
  } finally {
    closeSync(descriptor);
  }
}
