import { describe, expect, it } from 'vitest';
import {
  type ArchiveForm,
  int,
  text,
  type WrittenEntry,
  writeArchive,
} from '../../../test/support/archives.ts';
import { readArchive } from './archive.ts';
import { findBlocks, readBlock, readLargeObjects } from './blocks.ts';
import { BrokenDump } from './broken-dump.ts';
import { dumpInMemory } from './dump-file.ts';

const rows = Array.from({ length: 3_000 }, (_, n) => `${n}\tname ${n}\n`).join('');
const entries: WrittenEntry[] = [
  { kind: 'ENCODING', name: 'ENCODING', text: "SET client_encoding = 'UTF8';\n" },
  { kind: 'TABLE', name: 'teas', schema: 'public', text: 'CREATE TABLE public.teas (id int, "ä" text);\n' },
  {
    kind: 'TABLE DATA',
    name: 'teas',
    schema: 'public',
    copy: 'COPY public.teas FROM stdin;\n',
    data: `${rows}\\.\n\n\n`,
  },
  { kind: 'TABLE DATA', name: 'empty', schema: 'public', copy: 'COPY public.empty FROM stdin;\n', data: '' },
  {
    kind: 'BLOBS',
    name: 'BLOBS',
    largeObjects: { 7: Buffer.from('seven'), 8: Buffer.alloc(0), 9: Buffer.alloc(100_000, 9) },
  },
];

async function join(pieces: AsyncIterable<Buffer>): Promise<Buffer> {
  const all: Buffer[] = [];
  for await (const piece of pieces) all.push(Buffer.from(piece));
  return Buffer.concat(all);
}

/** Everything that is in it. */
async function readAll(bytes: Buffer, maxBytes = 10_000_000) {
  const file = dumpInMemory(bytes);
  let left = maxBytes;
  const count = (size: number) => {
    left -= size;
    if (left < 0) throw new BrokenDump('too much');
  };
  const archive = await readArchive(file);
  const blocks = await findBlocks(file, archive);
  const data: Record<string, string> = {};
  for (const [id, block] of blocks) {
    const name = archive.entries.find((entry) => entry.id === id)?.name ?? '';
    if (!block.isLargeObjects) data[name] = (await join(readBlock(file, archive, block, count))).toString();
    else
      for await (const { oid, data: content } of readLargeObjects(file, archive, block, count))
        data[`large object ${oid}`] = (await join(content)).toString('latin1');
  }
  return { archive, data };
}

const forms: ArchiveForm[] = [12, 13, 14, 15, 16].flatMap((minor) => [
  { minor, gzip: true, offsets: false },
  { minor, gzip: false, offsets: true },
]);

describe('an archive', () => {
  it.each(forms)('of version 1.$minor (gzip: $gzip, offsets: $offsets) is read as it is', async (form) => {
    const { archive, data } = await readAll(writeArchive(entries, form));
    expect(archive.minor).toBe(form.minor);
    expect(archive.entries.map(({ kind, name }) => [kind, name])).toEqual(
      entries.map(({ kind, name }) => [kind, name]),
    );
    expect(archive.entries[1]).toMatchObject({
      id: 2,
      schema: 'public',
      owner: 'owner',
      copy: null,
      hasData: false,
      text: 'CREATE TABLE public.teas (id int, "ä" text);\n',
    });
    expect(data).toEqual({
      teas: rows,
      empty: '',
      'large object 7': 'seven',
      'large object 8': '',
      'large object 9': '\t'.repeat(100_000),
    });
  });

  it('with chunks of a single byte is read too', async () => {
    const { data } = await readAll(writeArchive(entries, { gzip: true, chunkBytes: 1 }));
    expect(data.teas).toBe(rows);
  });

  it.each([
    ['another version', { minor: 17 }, 'version 1.17'],
    ['an old version', { minor: 11 }, 'version 1.11'],
    ['ten million entries', { count: 10_000_000 }, 'has 10000000 entries'],
    ['a negative number of entries', { count: -1 }, 'not valid'],
    ['fewer entries than it says', { count: 6 }, ''],
  ])('with %s is refused', async (_what, form, message) => {
    const error = await readAll(writeArchive(entries, form)).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(BrokenDump);
    expect(error.message).toContain(message);
  });

  it('with an entry that has very many dependencies is refused, before they are read', async () => {
    const bytes = writeArchive([{ kind: 'TABLE', name: 'teas', dependencies: 100_002 }]);
    await expect(readAll(bytes)).rejects.toThrow('an entry of the dump has too many dependencies');
  });

  it.each([
    ['lz4', 2],
    ['zstd', 3],
  ])('compressed with %s is refused with a hint', async (name, algorithm) => {
    const bytes = writeArchive(entries);
    bytes[11] = algorithm;
    await expect(readAll(bytes)).rejects.toMatchObject({
      message: `the dump is compressed with ${name}`,
      hint: 'Dump with --compress=gzip.',
    });
  });

  it.each([
    ['tar', 3],
    ['directory', 5],
  ])('of the format %s is refused with a hint', async (name, format) => {
    const bytes = writeArchive(entries);
    bytes[10] = format;
    await expect(readAll(bytes)).rejects.toMatchObject({ message: `the dump has the format "${name}"` });
  });

  it('in another encoding is refused with a hint', async () => {
    const bytes = writeArchive([{ kind: 'ENCODING', text: "SET client_encoding = 'LATIN1';" }]);
    await expect(readAll(bytes)).rejects.toMatchObject({ hint: 'Dump with --encoding=UTF8.' });
  });

  it('that unpacks to more than may be is stopped on its way', async () => {
    const bomb = writeArchive([{ kind: 'TABLE DATA', name: 'bomb', data: Buffer.alloc(50_000_000) }]);
    expect(bomb.length).toBeLessThan(100_000);
    await expect(readAll(bomb, 1_000_000)).rejects.toThrow('too much');
  });

  it.each([
    ['a length beyond its end', Buffer.concat([int(1), int(0), int(0x7fffffff)])],
    ['a length that is no number', Buffer.concat([int(1), int(0), Buffer.from([9, 0, 0, 0, 0])])],
    ['a text that is no UTF-8', Buffer.concat([int(1), int(0), int(1), Buffer.from([255])])],
    ['a text with a NUL', Buffer.concat([int(1), int(0), text('a\0b')])],
  ])('with %s is refused', async (_what, entry) => {
    const head = writeArchive([], { count: 1 });
    await expect(readAll(Buffer.concat([head, entry]))).rejects.toBeInstanceOf(BrokenDump);
  });

  it('with a data block that no entry names is refused', async () => {
    const whole = writeArchive(entries, { gzip: false });
    const at = whole.indexOf(Buffer.concat([Buffer.from([1]), int(3)]));
    expect(at).toBeGreaterThan(0);
    const other = Buffer.concat([whole.subarray(0, at + 1), int(99), whole.subarray(at + 6)]);
    await expect(readAll(other)).rejects.toThrow('belongs to no entry');
  });

  it('to which pg_dump has appended its table of contents again is read', async () => {
    const whole = writeArchive(entries, { gzip: false });
    const contents = writeArchive(entries.map(({ data: _, largeObjects: __, ...entry }) => entry));
    expect(await readAll(Buffer.concat([whole, contents]))).toEqual(await readAll(whole));
  });
});

describe('a damaged archive', () => {
  const small: WrittenEntry[] = [
    ...[entries[0] as WrittenEntry, entries[1] as WrittenEntry],
    { kind: 'TABLE DATA', name: 'teas', copy: 'COPY public.teas FROM stdin;\n', data: rows.slice(0, 500) },
    { kind: 'BLOBS', name: 'BLOBS', largeObjects: { 7: Buffer.from('seven') } },
  ];

  it.each([true, false])('cut off at any place is never taken for a whole one (gzip: %s)', async (gzip) => {
    const whole = writeArchive(small, { gzip });
    for (let size = 0; size < whole.length; size++) {
      const error = await readAll(whole.subarray(0, size)).catch((thrown) => thrown);
      expect(error, `cut at ${size}`).toBeInstanceOf(BrokenDump);
    }
    expect((await readAll(whole)).data.teas).toBe(rows.slice(0, 500));
  });

  it('with any single bit flipped is read or refused, never anything else', async () => {
    const whole = writeArchive(small, { gzip: true });
    let read = 0;
    for (let at = 0; at < whole.length; at++) {
      const damaged = Buffer.from(whole);
      damaged[at] = (damaged[at] as number) ^ (1 << (at % 8));
      const result = await readAll(damaged).catch((thrown) => thrown);
      if (result instanceof Error) expect(result, `flipped at ${at}`).toBeInstanceOf(BrokenDump);
      else read++;
    }
    // Names and texts have no checksum; what is compressed has one.
    expect(read).toBeGreaterThan(0);
    expect(read).toBeLessThan(whole.length);
  });
});
