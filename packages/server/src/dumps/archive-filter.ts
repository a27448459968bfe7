// Leaves what a move has put into a project out of a dump in pg_dump's custom format. Only the table of contents changes, which
// comes first. pg_dump writes to a pipe, so no entry knows the place of its data, and the data stays as it is.
import type { DumpFilter, MoveTraces } from './move-traces.ts';
import { type ArchiveHead, maxTextBytes, readEntry, readHead } from './read/archive.ts';
import { Cursor, intBytes, NeedsMore, readInt } from './read/cursor.ts';
import { isOfPublication, restoreIdentity } from './script-filter.ts';

export function openArchiveFilter(traces: MoveTraces): DumpFilter {
  let rest: Buffer = Buffer.alloc(0);
  let head: { bytes: Buffer; facts: ArchiveHead; count: number } | null = null;
  let seen = 0;
  let isPast = false;
  const entries: Buffer[] = [];

  /** Throws NeedsMore where `rest` ends. */
  const readOn = () => {
    if (!head) {
      const cursor = new Cursor(rest, maxTextBytes);
      const facts = readHead(cursor);
      const bytes = rest.subarray(0, cursor.at);
      head = { bytes, facts, count: cursor.int() };
      rest = rest.subarray(cursor.at);
    }
    for (; seen < head.count; seen++) {
      const cursor = new Cursor(rest, maxTextBytes);
      const entry = readEntry(cursor, head.facts);
      const bytes = rest.subarray(0, cursor.at);
      rest = rest.subarray(cursor.at);
      const isOurs = entry.kind.startsWith('PUBLICATION') && isOfPublication(entry.text.trimStart(), traces);
      if (!isOurs) entries.push(entry.kind === 'TABLE' ? changeTable(bytes, entry.text, traces) : bytes);
    }
    return head.bytes;
  };

  return {
    take: (piece) => {
      if (isPast) return [piece];
      rest = Buffer.concat([rest, piece]);
      try {
        const bytes = readOn();
        isPast = true;
        return [bytes, toInt(entries.length), ...entries.splice(0), rest];
      } catch (error) {
        if (error instanceof NeedsMore) return [];
        throw error;
      }
    },
    end: () => (isPast ? [] : [rest]),
  };
}

/** Behind CREATE TABLE, which can contain any text. */
function changeTable(bytes: Buffer, text: string, traces: MoveTraces): Buffer {
  const lines = text.split('\n');
  const at = lines.findLastIndex((line) => restoreIdentity(line, traces) !== line);
  if (at === -1) return bytes;
  const line = restoreIdentity(lines[at] ?? '', traces);
  // pg_dump writes an empty line before it.
  const isAlone = line === null && lines[at - 1] === '';
  lines.splice(isAlone ? at - 1 : at, isAlone ? 2 : 1, ...(line === null ? [] : [line]));
  const changed = Buffer.from(lines.join('\n'));
  const start = textAt(bytes);
  const end = start + intBytes + readInt(bytes, start);
  return Buffer.concat([bytes.subarray(0, start), toInt(changed.length), changed, bytes.subarray(end)]);
}

/** Where the SQL of an entry is: behind two numbers, four texts and a number. */
function textAt(bytes: Buffer): number {
  const cursor = new Cursor(bytes, maxTextBytes);
  cursor.skip(2 * intBytes);
  for (let field = 0; field < 4; field++) cursor.text();
  cursor.skip(intBytes);
  return cursor.at;
}

function toInt(value: number): Buffer {
  const bytes = Buffer.alloc(intBytes);
  bytes.writeUInt32LE(value, 1);
  return bytes;
}
