// Leaves what a move has put into a project out of a plain dump. pg_dump writes each of these statements on a line of its own.
import type { DumpFilter, MoveTraces } from './move-traces.ts';

/** A longer line is a row, or a value: none of ours. */
const maxLineBytes = 64 * 1024;
const newline = 10;
const dataEnd = '\\.';

export function openScriptFilter(traces: MoveTraces): DumpFilter {
  let rest: Buffer = Buffer.alloc(0);
  /** The beginning of this line is passed on already. */
  let isLong = false;
  /** Between COPY … FROM stdin; and \. */
  let isData = false;

  const change = (line: string): string | null => {
    if (isData) {
      isData = line !== dataEnd;
      return line;
    }
    isData = line.startsWith('COPY ') && line.endsWith(' FROM stdin;');
    return isOfPublication(line, traces) ? null : restoreIdentity(line, traces);
  };

  return {
    take: (piece) => {
      const bytes = rest.length > 0 ? Buffer.concat([rest, piece]) : piece;
      const out: Buffer[] = [];
      let start = 0;
      // Where the bytes begin that are passed on as they are.
      let kept = 0;
      for (let end = bytes.indexOf(newline); end !== -1; end = bytes.indexOf(newline, start)) {
        const size = end - start;
        if (!isLong && size <= maxLineBytes && (!isData || size === dataEnd.length)) {
          const line = bytes.toString('utf8', start, end);
          const changed = change(line);
          if (changed !== line) {
            out.push(bytes.subarray(kept, start));
            if (changed !== null) out.push(Buffer.from(`${changed}\n`));
            kept = end + 1;
          }
        }
        isLong = false;
        start = end + 1;
      }
      if (isLong || bytes.length - start > maxLineBytes) {
        isLong = true;
        start = bytes.length;
      }
      out.push(bytes.subarray(kept, start));
      rest = bytes.subarray(start);
      return out.filter(({ length }) => length > 0);
    },
    end: () => (rest.length > 0 ? [rest] : []),
  };
}

/** A statement, or pg_dump's comment before it. A name of ours needs no quotes. */
export function isOfPublication(line: string, { publications }: MoveTraces): boolean {
  const [, statement, comment] =
    /^(?:(?:CREATE|ALTER) PUBLICATION (\w+) |-- Name: (\w+)[ ;].*; Type: PUBLICATION)/.exec(line) ?? [];
  return publications.has(statement ?? comment ?? '');
}

/** Of a statement, or of a line: the same unless it sets what a move has set. */
export function restoreIdentity(line: string, { identities }: MoveTraces): string | null {
  const [, name = ''] = /^ALTER TABLE ONLY (.*) REPLICA IDENTITY FULL;$/.exec(line) ?? [];
  const before = identities.get(name);
  if (before === undefined) return line;
  return before === 'nothing' ? line.replace(/FULL;$/, 'NOTHING;') : null;
}
