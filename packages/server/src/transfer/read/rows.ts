// Rows of COPY in its text format, up to the line \. that ends them: in a script behind the COPY, and in an archive at the
// end of a table's data. A value is never such a line: COPY writes its backslash twice.
import { maxDumpRowBytes } from '../../settings/limits/imports.ts';
import { BrokenDump, endsTooEarly } from './broken-dump.ts';

const endMark = Buffer.from('\n\\.');
/** With \r\n behind it. */
const endBytes = 5;

/**
 * Without the line that ends them. `mayLack`: the pieces end here too, so their end will do; what is behind the line is read
 * and left out, because the checksum of compressed data comes last.
 */
export async function* untilEnd(
  pieces: AsyncIterable<Buffer>,
  { mayLack }: { mayLack: boolean },
): AsyncGenerator<Buffer> {
  /** The last bytes, which may be the beginning of the end. The first line break stands for the one before the rows. */
  let rest: Buffer = Buffer.from('\n');
  let skipped = 1;
  let sinceBreak = 0;
  const take = (bytes: Buffer, end: number): Buffer => {
    const piece = bytes.subarray(Math.min(skipped, end), end);
    if (end > 0) skipped = 0;
    const lastBreak = piece.lastIndexOf(10);
    sinceBreak = lastBreak === -1 ? sinceBreak + piece.length : piece.length - lastBreak;
    if (sinceBreak > maxDumpRowBytes) throw new BrokenDump('a row is larger than 256 MB');
    return piece;
  };
  let isOver = false;
  for await (const next of pieces) {
    if (isOver) continue;
    const bytes = Buffer.concat([rest, next]);
    const end = findEnd(bytes, false);
    const keep = end === -1 ? Math.max(0, bytes.length - endBytes) : end + 1;
    const piece = take(bytes, keep);
    if (piece.length > 0) yield piece;
    if (end !== -1 && !mayLack) return;
    isOver = end !== -1;
    rest = bytes.subarray(keep);
  }
  if (isOver) return;
  const end = findEnd(rest, true);
  if (end === -1 && !mayLack) throw endsTooEarly();
  const last = take(rest, end === -1 ? rest.length : end + 1);
  if (last.length > 0) yield last;
}

/** Where the line break before the line \. is; -1: not in these bytes. */
export function findEnd(bytes: Buffer, isLast: boolean): number {
  for (let at = bytes.indexOf(endMark); at !== -1; at = bytes.indexOf(endMark, at + 1)) {
    const [one, two] = [bytes[at + 3], bytes[at + 4]];
    if (one === 10 || (one === 13 && two === 10) || (one === undefined && isLast)) return at;
  }
  return -1;
}
