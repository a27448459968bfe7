// The ballast: a file beside the data that is removed when PostgreSQL cannot start on a full disk. Recovery after a crash
// must write before it can free any space. The ballast is made again once there is enough space.

import { randomBytes } from 'node:crypto';
import { rmSync, statSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { mb } from '../../lib/bytes.ts';
import { type DiskFacts, readDisk } from './disk.ts';

/** Recovery ends with a checkpoint, which needs up to two new WAL files of 16 MB and the rest of the current one. */
export const ballastBytes = 48 * mb;
/** With less free space than this, recovery may fail. */
export const neededToStart = 40 * mb;

/** `reserveBytes` 0 keeps no space free, so there is no ballast either. */
export async function makeBallast(folder: string, reserveBytes: number | null): Promise<void> {
  const file = fileIn(folder);
  removeOldBallast(folder);
  if (reserveBytes === 0 || hasBallast(folder)) return;
  if (!leavesEnough(readDisk(folder, reserveBytes))) return;
  // PostgreSQL's account owns the folder. A new random name ensures that no link of that account redirects our write.
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  // Random bytes: some file systems do not store zeros.
  const piece = randomBytes(mb);
  try {
    const handle = await open(draft, 'wx', 0o600);
    try {
      for (let written = 0; written < ballastBytes; written += mb) await handle.write(piece);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

/** Returns whether there was one. */
export function removeBallast(folder: string): boolean {
  const wasThere = hasBallast(folder);
  rmSync(fileIn(folder), { force: true });
  removeOldBallast(folder);
  return wasThere;
}

/** Its name in earlier versions, under which base backups would contain it. */
function removeOldBallast(folder: string): void {
  rmSync(path.join(folder, 'rowhouse.ballast'), { force: true });
}

function hasBallast(folder: string): boolean {
  return (statSync(fileIn(folder), { throwIfNoEntry: false })?.size ?? 0) >= ballastBytes;
}

/** The ballast itself must not make the disk low. */
function leavesEnough({ freeBytes, reserveBytes }: DiskFacts): boolean {
  return freeBytes - ballastBytes > reserveBytes * 1.25;
}

/** PostgreSQL leaves files with this prefix out of base backups. It could not even read this one. */
function fileIn(folder: string): string {
  return path.join(folder, 'pgsql_tmp.rowhouse-ballast');
}
