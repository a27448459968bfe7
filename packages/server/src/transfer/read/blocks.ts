// The data of pg_dump's custom format: blocks one behind the other, each a row of chunks with their lengths. All of them are
// walked over once, before anything is loaded: a file that was cut off is found at the start.
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createInflate } from 'node:zlib';
import type { Archive } from './archive.ts';
import { BrokenDump, endsTooEarly } from './broken-dump.ts';
import type { Count } from './counted.ts';
import { intBytes, readInt } from './cursor.ts';
import type { DumpFile } from './dump-file.ts';
import { untilEnd } from './rows.ts';

export type Block = Readonly<{ isLargeObjects: boolean; at: number }>;
export type LargeObject = Readonly<{ oid: number; data: AsyncGenerator<Buffer> }>;

const windowBytes = 256 * 1024;
const pieceBytes = 64 * 1024;
const dataBlock = 1;
const largeObjectsBlock = 3;

/**
 * By the id of their entry. Bytes after the last of them are not read, as by pg_restore: with its output redirected to a file, pg_dump
 * 16 and 17 cannot go back to the table of contents, and append it a second time.
 */
export async function findBlocks(file: DumpFile, archive: Archive): Promise<Map<number, Block>> {
  const expected = new Set(archive.entries.filter(({ hasData }) => hasData).map(({ id }) => id));
  const blocks = new Map<number, Block>();
  const walk = new Walk(file, archive.dataAt);
  while (blocks.size < expected.size) {
    if (walk.isAtEnd) throw endsTooEarly();
    const kind = await walk.byte();
    const id = await walk.int();
    if (kind !== dataBlock && kind !== largeObjectsBlock) throw new BrokenDump('a data block is not valid');
    if (!expected.has(id) || blocks.has(id)) throw new BrokenDump('a data block belongs to no entry');
    const isLargeObjects = kind === largeObjectsBlock;
    blocks.set(id, { isLargeObjects, at: walk.at });
    if (!isLargeObjects) await walk.skipChunks();
    else while ((await walk.int()) !== 0) await walk.skipChunks();
  }
  return blocks;
}

/** The rows of a table, unpacked, without the line that ends them. */
export function readBlock(
  file: DumpFile,
  archive: Archive,
  { at }: Block,
  count: Count,
): AsyncGenerator<Buffer> {
  return untilEnd(unpacked(new Walk(file, at), archive, count), { mayLack: true });
}

/** The data of one must be read, in part at least, before the next is asked for. */
export async function* readLargeObjects(
  file: DumpFile,
  archive: Archive,
  { at }: Block,
  count: Count,
): AsyncGenerator<LargeObject> {
  const walk = new Walk(file, at);
  for (;;) {
    const oid = await walk.int();
    if (oid === 0) return;
    const start = walk.at;
    yield { oid: oid < 0 ? oid + 2 ** 32 : oid, data: unpacked(new Walk(file, start), archive, count) };
    await walk.skipChunks();
  }
}

async function* unpacked(walk: Walk, { isCompressed }: Archive, count: Count): AsyncGenerator<Buffer> {
  const first = await walk.int();
  if (first === 0) return;
  const packed = chunksOf(walk, first);
  if (!isCompressed) {
    for await (const piece of packed) {
      count(piece.length);
      yield piece;
    }
    return;
  }
  const inflate = createInflate({ chunkSize: pieceBytes });
  // Its failure comes out of the loop below, too.
  const feeding = pipeline(Readable.from(packed, { objectMode: false }), inflate).catch(() => {});
  try {
    for await (const piece of inflate) {
      count(piece.length);
      yield piece;
    }
  } catch (error) {
    throw isZlibError(error)
      ? new BrokenDump('the compressed data is damaged', 'Make the dump again.')
      : error;
  } finally {
    inflate.destroy();
    await feeding;
  }
}

function isZlibError(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return typeof code === 'string' && code.startsWith('Z_');
}

async function* chunksOf(walk: Walk, first: number): AsyncGenerator<Buffer> {
  for (let left = first; left !== 0; left = await walk.int()) {
    if (left < 0) throw new BrokenDump('a chunk of data has a negative length');
    while (left > 0) {
      const piece = await walk.take(Math.min(left, pieceBytes));
      left -= piece.length;
      yield piece;
    }
  }
}

/** Goes through the file from one place on. */
class Walk {
  at: number;
  private window: Buffer = Buffer.alloc(0);
  private windowAt = 0;
  private readonly file: DumpFile;

  constructor(file: DumpFile, at: number) {
    this.file = file;
    this.at = at;
  }

  get isAtEnd(): boolean {
    return this.at >= this.file.size;
  }

  async byte(): Promise<number> {
    return (await this.take(1))[0] as number;
  }

  async int(): Promise<number> {
    return readInt(await this.take(intBytes), 0);
  }

  async take(size: number): Promise<Buffer> {
    let start = this.at - this.windowAt;
    if (start < 0 || start + size > this.window.length) {
      this.window = await this.file.read(this.at, Math.max(size, windowBytes));
      this.windowAt = this.at;
      start = 0;
      if (size > this.window.length) throw endsTooEarly();
    }
    this.at += size;
    return this.window.subarray(start, start + size);
  }

  async skipChunks(): Promise<void> {
    for (let size = await this.int(); size !== 0; size = await this.int()) {
      if (size < 0) throw new BrokenDump('a chunk of data has a negative length');
      if (this.at + size > this.file.size) throw endsTooEarly();
      this.at += size;
    }
  }
}
