// A zip archive as a stream. Sizes and checksums follow each file, because they are not known before. That rules out
// tar, whose headers contain the size. Every entry is ZIP64, so that none is too large.
import { crc32, createDeflateRaw, type DeflateRaw } from 'node:zlib';

/** The memory of a piece may be reused as soon as the next one is asked for. */
export type ZipFile = Readonly<{ name: string; pieces: AsyncIterable<Uint8Array> }>;
type Entry = { name: Buffer; at: number; size: number; packed: number; crc: number };

const version = 45;
/** Sizes follow the data; the name is UTF-8. */
const flags = 0x0808;
const deflated = 8;
/** 1 January 1980, the beginning of the format's time: an archive tells nothing of when it was made. */
const date = 0x0021;
const unknown32 = 0xffffffff;

export async function* zip(files: AsyncIterable<ZipFile>): AsyncGenerator<Uint8Array> {
  const entries: Entry[] = [];
  let at = 0;
  for await (const { name, pieces } of files) {
    const entry: Entry = { name: Buffer.from(name), at, size: 0, packed: 0, crc: 0 };
    entries.push(entry);
    const header = fileHeader(entry);
    at += header.length;
    yield header;
    const packer = createDeflateRaw({ level: 1 });
    const packing = pack(pieces, packer, entry);
    for await (const piece of packer) {
      entry.packed += piece.length;
      yield piece;
    }
    await packing;
    const descriptor = fileDescriptor(entry);
    at += entry.packed + descriptor.length;
    yield descriptor;
  }
  const directory = Buffer.concat(entries.map(directoryEntry));
  yield directory;
  yield endOfArchive(entries.length, at, directory.length);
}

/** Never rejects: whoever reads from the packer gets the error. */
async function pack(pieces: AsyncIterable<Uint8Array>, packer: DeflateRaw, entry: Entry): Promise<void> {
  try {
    for await (const piece of pieces) {
      entry.size += piece.length;
      entry.crc = crc32(piece, entry.crc);
      await new Promise<void>((resolve, reject) => {
        packer.write(piece, (error) => (error ? reject(error) : resolve()));
      });
    }
    packer.end();
  } catch (error) {
    packer.destroy(error as Error);
  }
}

class Record {
  private readonly parts: Buffer[] = [];

  u16(...values: number[]): this {
    for (const value of values) this.put(2, (part) => part.writeUInt16LE(value));
    return this;
  }

  u32(...values: number[]): this {
    for (const value of values) this.put(4, (part) => part.writeUInt32LE(value));
    return this;
  }

  u64(...values: number[]): this {
    for (const value of values) this.put(8, (part) => part.writeBigUInt64LE(BigInt(value)));
    return this;
  }

  bytes(...given: Buffer[]): Buffer {
    return Buffer.concat([...this.parts, ...given]);
  }

  private put(size: number, write: (part: Buffer) => void): void {
    const part = Buffer.alloc(size);
    write(part);
    this.parts.push(part);
  }
}

function fileHeader({ name }: Entry): Buffer {
  const extra = new Record().u16(1, 16).u64(0, 0).bytes();
  return new Record()
    .u32(0x04034b50)
    .u16(version, flags, deflated, 0, date)
    .u32(0, unknown32, unknown32)
    .u16(name.length, extra.length)
    .bytes(name, extra);
}

function fileDescriptor({ crc, packed, size }: Entry): Buffer {
  return new Record().u32(0x08074b50, crc).u64(packed, size).bytes();
}

function directoryEntry({ name, at, crc, packed, size }: Entry): Buffer {
  const extra = new Record().u16(1, 24).u64(size, packed, at).bytes();
  return new Record()
    .u32(0x02014b50)
    .u16(version, version, flags, deflated, 0, date)
    .u32(crc, unknown32, unknown32)
    .u16(name.length, extra.length, 0, 0, 0)
    .u32(0, unknown32)
    .bytes(name, extra);
}

/** First in its 64-bit form, then in the old one, which points to it. */
function endOfArchive(count: number, at: number, size: number): Buffer {
  const wide = new Record()
    .u32(0x06064b50)
    .u64(44)
    .u16(version, version)
    .u32(0, 0)
    .u64(count, count, size, at)
    .bytes();
  const locator = new Record()
    .u32(0x07064b50, 0)
    .u64(at + size)
    .u32(1)
    .bytes();
  const end = new Record().u32(0x06054b50).u16(0, 0, 0xffff, 0xffff).u32(unknown32, unknown32).u16(0).bytes();
  return Buffer.concat([wide, locator, end]);
}
