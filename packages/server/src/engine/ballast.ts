// A file of no use that lies beside the data and is removed when PostgreSQL cannot start for lack of room: recovery after a
// crash has to write before it can give anything back. It is made again once there is room.
import { randomBytes } from 'node:crypto';
import { rmSync, statSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { type DiskFacts, readDisk } from './disk.ts';

const mb = 1024 * 1024;
/** Recovery ends with a checkpoint, for which up to two files of 16 MB are made, and fills up the one it was at. */
export const ballastBytes = 48 * mb;
/** With less free than this it may not come to its end. */
export const neededToStart = 40 * mb;

/** Of the folder's disk. `reserveBytes` 0: nothing is kept free, so this is not either. */
export async function makeBallast(folder: string, reserveBytes: number | null): Promise<void> {
  const file = fileIn(folder);
  if (reserveBytes === 0 || hasBallast(folder)) return;
  if (!leavesEnough(readDisk(folder, reserveBytes))) return;
  // The folder is PostgreSQL's account's: a new name, so that no link of its can lead us elsewhere.
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  // Not zeros, which some file systems do not store.
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

/** True: there was one. */
export function removeBallast(folder: string): boolean {
  const wasThere = hasBallast(folder);
  rmSync(fileIn(folder), { force: true });
  return wasThere;
}

function hasBallast(folder: string): boolean {
  return (statSync(fileIn(folder), { throwIfNoEntry: false })?.size ?? 0) >= ballastBytes;
}

/** It must not be what makes the disk low. */
function leavesEnough({ freeBytes, reserveBytes }: DiskFacts): boolean {
  return freeBytes - ballastBytes > reserveBytes * 1.25;
}

function fileIn(folder: string): string {
  return path.join(folder, 'rowhouse.ballast');
}
