// A disk of its own for a test, and a way to fill it.
import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';

/** A disk of its own, gone after the test; null where this machine does not let us make one. */
export function smallDisk(sizeMb: number): string | null {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-disk-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${sizeMb}m,mode=0755`, 'rowhouse-test', folder], {
      stdio: 'pipe',
    });
  } catch (error) {
    rmSync(folder, { recursive: true });
    console.error(
      `NOT TESTED: a disk that really runs full. It needs root and mount: ${(error as Error).message}`,
    );
    return null;
  }
  onTestFinished(() => {
    // Lazily: whoever still has a file open there keeps it, and nobody else sees it.
    execFileSync('umount', ['-l', folder]);
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}

/** A disk with XFS, which clones files, gone after the test; null where this machine does not let us make one. */
export function xfsDisk(sizeMb: number): string | null {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-xfs-'));
  const [image, place] = [path.join(folder, 'image'), path.join(folder, 'disk')];
  mkdirSync(place);
  try {
    execFileSync('truncate', ['-s', `${sizeMb}M`, image], { stdio: 'pipe' });
    execFileSync('mkfs.xfs', ['-q', '-m', 'reflink=1', image], { stdio: 'pipe' });
    execFileSync('mount', ['-o', 'loop', image, place], { stdio: 'pipe' });
  } catch (error) {
    rmSync(folder, { recursive: true });
    console.error(
      `NOT TESTED: branches on XFS. It needs root, mkfs.xfs and mount: ${(error as Error).message}`,
    );
    return null;
  }
  // PostgreSQL runs as another account, which must be able to enter.
  execFileSync('chmod', ['755', folder, place]);
  onTestFinished(() => {
    execFileSync('umount', ['-l', place]);
    rmSync(folder, { recursive: true, force: true });
  });
  return place;
}

/** Takes all the room there is but so much. */
export function fill(disk: string, leaveBytes = 0, name = 'filler'): { free(): void } {
  const file = path.join(disk, name);
  const descriptor = openSync(file, 'a');
  const piece = Buffer.alloc(64 * 1024);
  try {
    for (;;) {
      const { bavail, bsize } = statfsSync(disk);
      const left = bavail * bsize - leaveBytes;
      if (left <= 0) break;
      writeSync(descriptor, piece, 0, Math.min(piece.length, left));
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  } finally {
    closeSync(descriptor);
  }
  return { free: () => rmSync(file) };
}
