// A dump on its way: written to a file that has no name from the moment it is open, so that it is gone with its process,
// however that ends. Where a system does not allow this, the next start clears it away.
import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { type FileHandle, open, unlink } from 'node:fs/promises';
import path from 'node:path';
import { errors } from '../../errors/errors.ts';
import { type DumpFile, openDumpFile } from '../read/dump-file.ts';

export type Spool = {
  /** All that was written. */
  file(): DumpFile;
  readonly size: number;
  close(): Promise<void>;
};

type Options = {
  folder: string;
  maxBytes: number;
  isDiskLow: () => boolean;
};

/** Writes everything that comes. Without an end (an error, too much, a low disk) nothing is kept. */
export async function fillSpool(
  { folder, maxBytes, isDiskLow }: Options,
  pieces: AsyncIterable<Uint8Array>,
): Promise<Spool> {
  if (isDiskLow()) throw errors.serverFull();
  const handle = await openNameless(folder);
  let size = 0;
  try {
    for await (const piece of pieces) {
      if (size + piece.length > maxBytes) throw errors.dumpTooLarge(Math.floor(maxBytes / 1024 / 1024));
      if (isDiskLow()) throw errors.serverFull();
      await writeAll(handle, piece, size);
      size += piece.length;
    }
  } catch (error) {
    await handle.close();
    throw (error as { code?: unknown }).code === 'ENOSPC'
      ? errors.serverFull(undefined, { cause: error })
      : error;
  }
  return spoolOf(handle, size);
}

export function spoolOf(handle: FileHandle, size: number): Spool {
  let closing: Promise<void> | null = null;
  const close = () => {
    closing ??= handle.close();
    return closing;
  };
  return { size, file: () => openDumpFile(handle, size), close };
}

export async function writeAll(handle: FileHandle, piece: Uint8Array, at: number): Promise<void> {
  for (let written = 0; written < piece.length; ) {
    const { bytesWritten } = await handle.write(piece, written, piece.length - written, at + written);
    written += bytesWritten;
  }
}

async function openNameless(folder: string): Promise<FileHandle> {
  const name = path.join(folder, `${process.pid}-${randomBytes(9).toString('hex')}`);
  const handle = await open(name, 'wx+', 0o600);
  await unlink(name).catch(() => {});
  return handle;
}

const nameForm = /^(\d+)-[0-9a-f]{18}$/;

/** Makes the folder, and removes what processes that are gone have left in it. */
export function prepareSpoolFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  for (const name of readdirSync(folder)) {
    const [, pid] = nameForm.exec(name) ?? [];
    if (pid && !isAlive(Number(pid))) rmSync(path.join(folder, name), { force: true });
  }
}

/** Whether another process runs. */
export function isAlive(pid: number): boolean {
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as { code?: unknown }).code === 'EPERM';
  }
}
