// Reads the header line of a CSV body. The rows after it are passed on unread: PostgreSQL's COPY parses them.

import { isUtf8 } from 'node:buffer';
import { errors, type RowhouseError } from '../../errors/errors.ts';
import { quoted } from './lines.ts';

export type Csv = {
  /** The names in the header, unquoted. */
  names: string[];
  /** The number of lines of the header: a quoted name can contain line breaks. */
  lines: number;
  /** Everything after the header, unchanged. */
  rest: AsyncGenerator<Buffer, void>;
};

const maxHeaderBytes = 256 * 1024;
const maxColumns = 1600;

/** The body's iterator is never closed: its owner may still have to respond on the same connection. */
export async function openCsv(body: AsyncIterable<Buffer>): Promise<Csv> {
  const pieces = body[Symbol.asyncIterator]();
  const scan = findHeaderEnd();
  const read: Buffer[] = [];
  let size = 0;
  for (;;) {
    const { value: piece, done } = await pieces.next();
    const end = done ? -1 : scan(piece);
    if (piece && !done) {
      read.push(piece);
      // A sender can make each piece a single byte.
      if (read.length === 100) read.splice(0, 100, Buffer.concat(read));
      size += end === -1 ? piece.length : end;
    }
    if (size > maxHeaderBytes) {
      throw problem(`is longer than ${maxHeaderBytes} bytes`, 'Check for a quote that is not closed.');
    }
    if (!done && end === -1) continue;
    const bytes = Buffer.concat(read);
    const line = bytes.subarray(0, size);
    const names = readNames(line);
    return { names, lines: countLines(line), rest: passOn(bytes.subarray(size), pieces, done === true) };
  }
}

async function* passOn(
  first: Buffer,
  pieces: AsyncIterator<Buffer>,
  isDone: boolean,
): AsyncGenerator<Buffer, void> {
  if (first.length > 0) yield first;
  if (isDone) return;
  for (;;) {
    const { value, done } = await pieces.next();
    if (done) return;
    yield value;
  }
}

/**
 * For PostgreSQL before 18, which treats any line \\. as the end and silently ignores what follows. `number`: the
 * number of the first line.
 */
export async function* refuseEndMarks(
  pieces: AsyncIterable<Buffer>,
  number: number,
): AsyncGenerator<Buffer, void> {
  let line = number;
  /** The first bytes of the line, as many as a mark and a carriage return need, plus one. */
  let start: number[] = [];
  const isMark = () =>
    start[0] === 92 && start[1] === 46 && (start.length === 2 || (start.length === 3 && start[2] === 13));
  const check = () => {
    if (!isMark()) return;
    throw errors.invalidRequest(
      [
        {
          path: `line ${line}`,
          problem: 'contains only \\., which this version of PostgreSQL reads as the end of the data',
        },
      ],
      'Quote the value: "\\.". Inside a quoted value, it must not be on a line of its own.',
    );
  };
  for await (const piece of pieces) {
    for (let at = 0; at < piece.length; ) {
      while (start.length < 4 && at < piece.length && piece[at] !== newline)
        start.push(piece[at++] as number);
      const end = piece.indexOf(newline, at);
      if (end === -1) break;
      check();
      line++;
      start = [];
      at = end + 1;
    }
    yield piece;
  }
  check();
}

const quote = 34;
const newline = 10;

/**
 * For each piece: the position after the header's line break, or -1 if the header continues. A line break between
 * quotes is part of a name.
 */
function findHeaderEnd(): (piece: Buffer) => number {
  let inQuotes = false;
  return (piece) => {
    for (let at = 0; at < piece.length; at++) {
      // A doubled quote closes and reopens the quotes.
      if (piece[at] === quote) inQuotes = !inQuotes;
      else if (piece[at] === newline && !inQuotes) return at + 1;
    }
    return -1;
  };
}

function countLines(header: Buffer): number {
  const breaks = header.filter((byte) => byte === newline).length;
  return header.at(-1) === newline ? breaks : breaks + 1;
}

function readNames(line: Buffer): string[] {
  if (!isUtf8(line)) throw problem('is not valid UTF-8');
  // Spreadsheet programs write a byte order mark.
  const text = line
    .toString('utf8')
    .replace(/^\uFEFF/, '')
    .replace(/\r?\n$/, '');
  if (text === '') throw problem('is missing', 'The first line must name the columns.');
  if (text.includes('\0')) throw problem('must not contain a NUL character');
  const names = splitNames(text);
  if (names.length > maxColumns) throw problem(`has more than ${maxColumns} columns`);
  const seen = new Set<string>();
  for (const [index, name] of names.entries()) {
    if (name === '') throw problem(`has no name for column ${index + 1}`, 'Check for an extra comma.');
    if (seen.has(name)) throw problem(`has the column ${quoted(name)} twice`);
    seen.add(name);
  }
  const other = names.length === 1 ? /[;\t|]/.exec(text)?.[0] : undefined;
  if (other && !text.startsWith('"')) {
    throw problem(
      `has one column, with ${quoted(other)} in it`,
      'Columns are separated by commas; a name with such a character goes between quotes.',
    );
  }
  return names;
}

/** RFC 4180: a quoted name, in which "" is a quote, or an unquoted one. */
function splitNames(text: string): string[] {
  const names: string[] = [];
  for (let at = 0; ; ) {
    const isQuoted = text[at] === '"';
    const end = isQuoted ? endOfQuotes(text, at) : endOfPlain(text, at);
    names.push(isQuoted ? text.slice(at + 1, end - 1).replaceAll('""', '"') : text.slice(at, end));
    if (end === text.length) return names;
    if (text[end] !== ',') throw problem(`has text after the closing quote of column ${names.length}`);
    at = end + 1;
  }
}

function endOfQuotes(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at !== -1; at = text.indexOf('"', at + 2)) {
    if (text[at + 1] !== '"') return at + 1;
  }
  throw problem('has a quote that is not closed');
}

function endOfPlain(text: string, start: number): number {
  const comma = text.indexOf(',', start);
  const end = comma === -1 ? text.length : comma;
  const name = text.slice(start, end);
  if (name.includes('"'))
    throw problem(`has a quote inside the name ${quoted(name)}`, 'Write "a ""b""" for a "b".');
  if (name.includes('\r')) throw problem('has a bare carriage return', 'End lines with \\n or \\r\\n.');
  return end;
}

function problem(text: string, hint?: string): RowhouseError {
  return errors.invalidRequest([{ path: '', problem: `the header line ${text}` }], hint);
}
