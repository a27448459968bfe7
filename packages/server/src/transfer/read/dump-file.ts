// A dump as it lies on disk: read at any place, never as a whole.
import type { FileHandle } from 'node:fs/promises';
import { endsTooEarly } from './broken-dump.ts';

export type DumpFile = Readonly<{
  size: number;
  /** At most `length` bytes from `at`; fewer only at the end of the file. */
  read(at: number, length: number): Promise<Buffer>;
}>;

export function openDumpFile(handle: FileHandle, size: number): DumpFile {
  return {
    size,
    read: async (at, length) => {
      const wanted = Math.max(0, Math.min(length, size - at));
      const bytes = Buffer.allocUnsafeSlow(wanted);
      for (let filled = 0; filled < wanted; ) {
        const { bytesRead } = await handle.read(bytes, filled, wanted - filled, at + filled);
        if (bytesRead === 0) throw endsTooEarly();
        filled += bytesRead;
      }
      return bytes;
    },
  };
}

export function dumpInMemory(bytes: Buffer): DumpFile {
  return {
    size: bytes.length,
    read: async (at, length) => Buffer.from(bytes.subarray(at, Math.min(bytes.length, at + length))),
  };
}
