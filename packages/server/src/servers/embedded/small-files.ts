// Reads files that another account may have written: never through a link, never from a pipe, never without a size limit.
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';

const maxBytes = 64 * 1024;

/** The text of a small regular file. Empty if the file is missing, too large, or not a regular file. */
export function readSmallFile(file: string): string {
  return readSmallBytes(file).toString('utf8');
}

/** The same for a file that is not text. */
export function readSmallBytes(file: string): Buffer {
  return read(file, (size) => (size <= maxBytes ? 0 : -1));
}

/** The last part of a file of any size. */
export function readTail(file: string): string {
  return read(file, (size) => Math.max(0, size - maxBytes)).toString('utf8');
}

function read(file: string, from: (size: number) => number): Buffer {
  let descriptor: number;
  try {
    descriptor = openSync(
      file,
      constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0),
    );
  } catch {
    return Buffer.alloc(0);
  }
  try {
    const stat = fstatSync(descriptor);
    const start = from(stat.size);
    if (!stat.isFile() || start < 0) return Buffer.alloc(0);
    const bytes = Buffer.alloc(Math.min(stat.size, maxBytes));
    return bytes.subarray(0, readSync(descriptor, bytes, 0, bytes.length, start));
  } finally {
    closeSync(descriptor);
  }
}
