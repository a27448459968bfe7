// Rows of COPY in its text format, as values. Only for the users of a dump, whose every value is checked; all other rows go
// to PostgreSQL as they are.
import { isUtf8 } from 'node:buffer';
import { BrokenDump } from '../read/broken-dump.ts';
import { ownText } from '../read/own-text.ts';
import { findWords } from '../read/words.ts';

export type CopyRow = ReadonlyMap<string, string | null>;

/** A cheap look first: a dump can have hundreds of thousands of tables. */
export function readAuthHead(text: string): { table: string; columns: string[] } | null {
  if (!/^\s{0,100}copy\s{1,100}"?auth"?\s{0,100}\./i.test(text)) return null;
  const head = readCopyHead(text.trim());
  return head?.schema === 'auth' ? head : null;
}

/** COPY auth.users (id, email) FROM stdin; → { schema: auth, table: users, columns: [id, email] } */
export function readCopyHead(text: string): { schema: string; table: string; columns: string[] } | null {
  const words = findWords(text, 64 * 1024);
  const [copy, schema, table] = words;
  if (copy?.word !== 'copy' || !schema || !table || table.depth !== 0) return null;
  if (text.slice(schema.end, table.start).trim() !== '.') return null;
  const columns = words.filter(({ depth }) => depth === 1).map(({ word }) => ownText(word));
  return { schema: schema.word, table: ownText(table.word), columns };
}

/** A user has at most 64 KB of data. */
const maxLineBytes = 1024 * 1024;

export async function* readCopyRows(
  pieces: AsyncIterable<Buffer>,
  columns: readonly string[],
): AsyncGenerator<CopyRow> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const piece of pieces) {
    let bytes = rest.length > 0 ? Buffer.concat([rest, piece]) : piece;
    for (let end = bytes.indexOf(10); end !== -1; end = bytes.indexOf(10)) {
      yield readLine(bytes.subarray(0, end), columns);
      bytes = bytes.subarray(end + 1);
    }
    if (bytes.length > maxLineBytes) throw new BrokenDump('a row of users is longer than 1 MB');
    rest = Buffer.from(bytes);
  }
  if (rest.length > 0) yield readLine(rest, columns);
}

function readLine(line: Buffer, columns: readonly string[]): CopyRow {
  if (!isUtf8(line)) throw new BrokenDump('a row of users is not valid UTF-8');
  const fields = line.toString('utf8').replace(/\r$/, '').split('\t');
  if (fields.length !== columns.length) throw new BrokenDump('a row of users has another number of columns');
  return new Map(columns.map((name, index) => [name, toValue(fields[index] ?? '')]));
}

const escapes: Record<string, string> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' };

function toValue(field: string): string | null {
  if (field === '\\N') return null;
  return field.replace(/\\(.)/gs, (_all, letter: string) => escapes[letter] ?? letter);
}
