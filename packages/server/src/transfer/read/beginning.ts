// What the first bytes of a dump tell: its format, and how many entries it has. A dump that cannot be imported is refused by
// them, before the rest of it arrives.
import { magic, readHead } from './archive.ts';
import { BrokenDump } from './broken-dump.ts';
import { Cursor, NeedsMore } from './cursor.ts';

export const beginningBytes = 4096;

/** The pieces of a dump, up to the one with which it is known that it cannot be imported. */
export async function* withGoodBeginning(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
  let seen = Buffer.alloc(0);
  for await (const piece of pieces) {
    if (seen.length < beginningBytes && piece.length > 0) {
      seen = Buffer.concat([seen, piece.subarray(0, beginningBytes - seen.length)]);
      checkBeginning(seen);
    }
    yield piece;
  }
}

/** `bytes`: up to `beginningBytes`. Throws BrokenDump. */
export function checkBeginning(bytes: Buffer): void {
  if (bytes.toString('latin1', 0, magic.length) !== magic) return checkScriptBeginning(bytes);
  try {
    readHead(new Cursor(bytes, beginningBytes));
  } catch (error) {
    // More of it is to come, or the whole is read later and found to be cut off.
    if (!(error instanceof NeedsMore)) throw error;
  }
}

/** Checks the beginning of a dump that is not in the custom format. */
export function checkScriptBeginning(bytes: Buffer): void {
  if (bytes.length === 0) throw new BrokenDump('the dump is empty');
  if (bytes[0] === 0x1f && bytes[1] === 0x8b)
    throw new BrokenDump('the file is compressed with gzip', 'Unpack it first: gunzip file.sql.gz');
  if ((bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff))
    throw new BrokenDump('the file is UTF-16', 'Write it with pg_dump --file=…, not with > in PowerShell.');
  if (bytes.toString('latin1', 0, 7) === 'toc.dat')
    throw new BrokenDump('the dump has the format "tar"', 'Dump with --format=custom or --format=plain.');
  if (bytes.toString('latin1', 0, 4) === 'PK\x03\x04')
    throw new BrokenDump(
      'this is a zip file',
      'Export with --format custom or sql: CSV cannot be imported as a project.',
    );
  if (bytes.includes(0))
    throw new BrokenDump('this is not a dump of pg_dump', 'Dump with --format=custom or --format=plain.');
  const text = bytes.toString('latin1');
  if (text.includes('-- PostgreSQL database cluster dump'))
    throw new BrokenDump('this is a dump of a whole server', 'Dump one database with pg_dump.');
  const [, encoding] = /^SET client_encoding = '([^']*)';/m.exec(text) ?? [];
  if (encoding && encoding !== 'UTF8')
    throw new BrokenDump(`the encoding of the dump is ${encoding}`, 'Dump with --encoding=UTF8.');
}
