// pg_dump's custom format: the header and the table of contents. The offsets in it are not used: data blocks follow each
// other whether pg_dump knew their offsets or not, so a hostile offset has no effect (blocks.ts).
import {
  maxContentsBytes,
  maxDumpObjects,
  maxEntryDependencies,
  maxEntryTextBytes,
} from '../../settings/limits/imports.ts';
import { BrokenDump, endsTooEarly } from './broken-dump.ts';
import { tooManyEntries } from './contents.ts';
import { Cursor, NeedsMore } from './cursor.ts';
import type { DumpFile } from './dump-file.ts';

export type Archive = Readonly<{
  /** 12 to 16: of pg_dump 9.0 to 18. */
  minor: number;
  isCompressed: boolean;
  entries: readonly ArchiveEntry[];
  /** Where the data begins. */
  dataAt: number;
}>;

export type ArchiveEntry = Readonly<{
  id: number;
  /** In pg_dump's words: TABLE, TABLE DATA, FK CONSTRAINT, … */
  kind: string;
  schema: string | null;
  name: string;
  owner: string | null;
  /** SQL, possibly several statements. */
  text: string;
  /** COPY … FROM stdin; */
  copy: string | null;
  hasData: boolean;
}>;

export const magic = 'PGDMP';

const windowBytes = 1024 * 1024;

export async function readArchive(file: DumpFile): Promise<Archive> {
  const reading = new Reading(file);
  const head = await reading.take(readHead);
  const { count } = head;
  const entries: ArchiveEntry[] = [];
  for (let n = 0; n < count; n++) entries.push(await reading.take((cursor) => readEntry(cursor, head)));
  checkIds(entries);
  checkEncoding(entries);
  const { minor, isCompressed } = head;
  return { minor, isCompressed, entries, dataAt: reading.at };
}

/** `count`: of the entries. */
export type ArchiveHead = { minor: number; offsetBytes: number; isCompressed: boolean; count: number };

/** Reads values from a window of the file. A value that is cut off by its end is read again from a larger one. */
class Reading {
  at = 0;
  private window: Buffer = Buffer.alloc(0);
  private windowAt = 0;
  private readonly file: DumpFile;

  constructor(file: DumpFile) {
    this.file = file;
  }

  async take<T>(read: (cursor: Cursor) => T): Promise<T> {
    for (let size = windowBytes; ; size *= 2) {
      const start = this.at - this.windowAt;
      const cursor = new Cursor(this.window.subarray(start), maxEntryTextBytes);
      try {
        const value = read(cursor);
        this.at += cursor.at;
        if (this.at > maxContentsBytes)
          throw new BrokenDump('the table of contents of the dump is larger than 128 MB');
        return value;
      } catch (error) {
        if (!(error instanceof NeedsMore)) throw error;
        if (this.windowAt + this.window.length >= this.file.size) throw endsTooEarly();
        if (size > 8 * maxEntryTextBytes) throw new BrokenDump('an entry of the dump is too long');
        this.window = await this.file.read(this.at, size);
        this.windowAt = this.at;
      }
    }
  }
}

const formats: Record<number, string> = { 3: 'tar', 4: 'plain', 5: 'directory' };

export function readHead(cursor: Cursor): ArchiveHead {
  for (const letter of magic) {
    if (cursor.byte() !== letter.charCodeAt(0)) throw new BrokenDump('this is not a dump of pg_dump');
  }
  const [major, minor] = [cursor.byte(), cursor.byte(), cursor.byte()];
  if (major !== 1 || minor === undefined || minor < 12 || minor > 16) {
    throw new BrokenDump(
      `the dump has version ${major}.${minor} of the archive format`,
      'Versions 1.12 to 1.16 can be read: those of pg_dump 9.0 to 18.',
    );
  }
  const intSize = cursor.byte();
  const offsetBytes = cursor.byte();
  if (intSize !== 4 || (offsetBytes !== 4 && offsetBytes !== 8))
    throw new BrokenDump('the dump was made for a machine with numbers of another size');
  const format = cursor.byte();
  if (format !== 1) {
    const name = formats[format] ?? 'unknown';
    throw new BrokenDump(`the dump has the format "${name}"`, 'Dump with --format=custom or --format=plain.');
  }
  const isCompressed = readCompression(cursor, minor);
  // The time at which it was made.
  for (let field = 0; field < 7; field++) cursor.int();
  // The database, its server's version and pg_dump's.
  for (let field = 0; field < 3; field++) cursor.text();
  const count = cursor.int();
  if (count < 0) throw new BrokenDump('the number of entries is not valid');
  if (count > maxDumpObjects) throw tooManyEntries(count);
  return { minor, offsetBytes, isCompressed, count };
}

function readCompression(cursor: Cursor, minor: number): boolean {
  if (minor < 15) return cursor.int() !== 0;
  const algorithm = cursor.byte();
  if (algorithm === 0) return false;
  if (algorithm === 1) return true;
  const name = ['none', 'gzip', 'lz4', 'zstd'][algorithm] ?? 'an unknown method';
  throw new BrokenDump(`the dump is compressed with ${name}`, 'Dump with --compress=gzip.');
}

export function readEntry(cursor: Cursor, { minor, offsetBytes }: ArchiveHead): ArchiveEntry {
  const id = cursor.int();
  const hasData = cursor.int() !== 0;
  // The object's place in the catalog of its server.
  cursor.text();
  cursor.text();
  const name = cursor.text() ?? '';
  const kind = cursor.text() ?? '';
  cursor.int(); // the section
  const text = cursor.text() ?? '';
  cursor.text(); // the DROP
  const copy = cursor.text();
  const schema = cursor.text();
  cursor.text(); // the tablespace
  if (minor >= 14) cursor.text(); // the access method
  if (minor >= 16) cursor.int(); // the kind of relation
  const owner = cursor.text();
  cursor.text(); // WITH OIDS
  for (let count = 0; cursor.text() !== null; count++)
    if (count > maxEntryDependencies) throw new BrokenDump('an entry of the dump has too many dependencies');
  const state = cursor.byte();
  cursor.skip(offsetBytes);
  if (state < 1 || state > 3) throw new BrokenDump('an entry of the dump is not valid');
  return {
    id,
    kind,
    name,
    text,
    copy: copy || null,
    hasData: hasData && state !== 3,
    schema: schema || null,
    owner: owner || null,
  };
}

function checkIds(entries: readonly ArchiveEntry[]): void {
  const seen = new Set<number>();
  for (const { id } of entries) {
    if (id <= 0 || seen.has(id)) throw new BrokenDump('the entries of the dump are not numbered correctly');
    seen.add(id);
  }
}

function checkEncoding(entries: readonly ArchiveEntry[]): void {
  const entry = entries.find(({ kind }) => kind === 'ENCODING');
  const [, name = 'UTF8'] = /'([^']*)'/.exec(entry?.text ?? '') ?? [];
  if (name !== 'UTF8')
    throw new BrokenDump(`the encoding of the dump is ${name}`, 'Dump with --encoding=UTF8.');
}
