// Writes pg_dump's custom format, so that tests can make dumps that pg_dump would never write.
import { deflateSync } from 'node:zlib';

export type WrittenEntry = {
  dependencies?: number;
  kind: string;
  name?: string;
  schema?: string | null;
  owner?: string;
  text?: string;
  copy?: string;
  data?: string | Buffer;
  /** By oid. */
  largeObjects?: Record<number, Buffer>;
};

export type ArchiveForm = {
  minor?: number;
  gzip?: boolean;
  offsets?: boolean;
  count?: number;
  chunkBytes?: number;
};

export function writeArchive(entries: readonly WrittenEntry[], form: ArchiveForm = {}): Buffer {
  const { minor = 16, gzip = true, offsets = false, count = entries.length, chunkBytes = 4096 } = form;
  const head = [
    Buffer.from([...Buffer.from('PGDMP'), 1, minor, 0, 4, 8, 1]),
    minor >= 15 ? Buffer.from([gzip ? 1 : 0]) : int(gzip ? -1 : 0),
    ...[1, 2, 3, 4, 5, 126, 0].map(int),
    ...['database', '18.1', '18.1'].map(text),
    int(count),
  ];
  const toc = entries.map((entry, index) => writeEntry(entry, index + 1, minor, offsets));
  const pack = (data: Buffer) => chunks(gzip ? deflateSync(data) : data, chunkBytes);
  const blocks = entries.flatMap(({ data, largeObjects }, index) => {
    const id = int(index + 1);
    if (data !== undefined) return [Buffer.from([1]), id, pack(Buffer.from(data))];
    if (!largeObjects) return [];
    const objects = Object.entries(largeObjects).flatMap(([oid, bytes]) => [int(Number(oid)), pack(bytes)]);
    return [Buffer.from([3]), id, ...objects, int(0)];
  });
  return Buffer.concat([...head, ...toc, ...blocks]);
}

function writeEntry(entry: WrittenEntry, id: number, minor: number, offsets: boolean): Buffer {
  const hasData = entry.data !== undefined || entry.largeObjects !== undefined;
  const offset = Buffer.alloc(9);
  offset[0] = hasData ? (offsets ? 2 : 1) : 3;
  return Buffer.concat([
    ...[
      int(id),
      int(hasData ? 1 : 0),
      text('1259'),
      text('16385'),
      text(entry.name ?? 'x'),
      text(entry.kind),
    ],
    ...[
      int(2),
      text(entry.text ?? ''),
      text(''),
      text(entry.copy ?? null),
      text(entry.schema ?? null),
      text(''),
    ],
    ...(minor >= 14 ? [text('heap')] : []),
    ...(minor >= 16 ? [int(114)] : []),
    ...[text(entry.owner ?? 'owner'), text('false')],
    ...Array.from({ length: entry.dependencies ?? 1 }, () => text('7')),
    ...[text(null), offset],
  ]);
}

export function int(value: number): Buffer {
  const bytes = Buffer.alloc(5);
  bytes[0] = value < 0 ? 1 : 0;
  bytes.writeUInt32LE(Math.abs(value), 1);
  return bytes;
}

export function text(value: string | null): Buffer {
  if (value === null) return int(-1);
  return Buffer.concat([int(Buffer.byteLength(value)), Buffer.from(value)]);
}

function chunks(data: Buffer, size: number): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < data.length; at += size) {
    const part = data.subarray(at, at + size);
    parts.push(int(part.length), part);
  }
  return Buffer.concat([...parts, int(0)]);
}
