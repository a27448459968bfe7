// Converts a JSON-lines body to COPY's text format as it streams: at most one line and the latest piece are in memory.
// The keys of the first line are the columns; every other line must have the same keys.
import { isUtf8 } from 'node:buffer';
import { errors, RowhouseError } from '../../errors.ts';
import { toArrayText, toJsonArrayText } from '../../query/json/array-text.ts';
import { ExactNumber, isJsonObject, parseJsonText, toJsonText } from '../../query/json/json-text.ts';
import { isLarge, LargeSyntaxError, parseLargeJson, sliceBytes } from '../../query/json/large-json.ts';
import { addArray, addJson, addText, TextPieces } from '../../query/json/large-text.ts';
import type { TypeShape } from '../catalog/catalog.ts';
import { toRecordText } from './record-text.ts';

/** `isArray` with `isJson`: an array of json. `record`: a composite, or an array of composites. */
export type ImportColumn = Readonly<{ name: string; isJson: boolean; isArray: boolean; record?: TypeShape }>;

export type JsonLines = {
  /** The keys of the first line, in order. */
  names: string[];
  /**
   * Bytes for COPY … FROM STDIN in text format. `columns` has the same names, in the order that the values shall have.
   */
  rows(columns: readonly ImportColumn[]): AsyncGenerator<Buffer, void>;
};

type Line = { number: number; row: Record<string, unknown> };

export const maxLineBytes = 8 * 1024 * 1024;
const maxColumns = 1600;

/** Reads the first line. The body's iterator is never closed: its owner may still have to respond on its connection. */
export async function openJsonLines(
  body: AsyncIterable<Buffer>,
  { maxBytes = maxLineBytes } = {},
): Promise<JsonLines> {
  const batches = readLines(body, maxBytes);
  const { value: batch } = await batches.next();
  const first = batch?.[0];
  if (!batch || !first) {
    throw errors.invalidRequest([{ path: '', problem: 'the body must contain at least one line' }]);
  }
  const names = Object.keys(first.row);
  if (names.length === 0) throw problemAt(1, 'has no keys; the keys of the first line name the columns');
  if (names.length > maxColumns) throw problemAt(1, `has more than ${maxColumns} keys`);
  return {
    names,
    async *rows(columns) {
      checkColumns(columns, names);
      yield* toCopyPieces(batch, columns, names);
      for (;;) {
        const { value: next, done } = await batches.next();
        if (done) return;
        yield* toCopyPieces(next, columns, names);
      }
    },
  };
}

/** Yields the lines that each piece of the body completes. Batches are never empty. */
async function* readLines(body: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<Line[], void> {
  const pieces = body[Symbol.asyncIterator]();
  const rest = growingBuffer();
  let number = 0;
  let blank = 0;
  let lines: Line[] = [];

  const take = async (bytes: Buffer) => {
    number++;
    if (isBlank(bytes)) {
      blank ||= number;
      return;
    }
    // Blank lines are allowed only at the end: in the middle they may be a line that got lost.
    if (blank) throw problemAt(blank, 'is blank, which is allowed only at the end of the body');
    const isLong = bytes.length > sliceBytes;
    lines.push({ number, row: isLong ? await readLongLine(bytes, number) : readLine(bytes, number) });
  };

  for (;;) {
    const { value: piece, done } = await pieces.next();
    if (done) break;
    let start = 0;
    for (let end = piece.indexOf(10); end !== -1; end = piece.indexOf(10, start)) {
      const part = piece.subarray(start, end);
      if (rest.size() + part.length > maxBytes) throw tooLong(number + 1, maxBytes);
      await take(rest.size() === 0 ? part : rest.takeWith(part));
      start = end + 1;
    }
    if (rest.size() + piece.length - start > maxBytes) throw tooLong(number + 1, maxBytes);
    rest.add(piece.subarray(start));
    if (lines.length > 0) {
      yield lines;
      lines = [];
    }
  }
  if (rest.size() > 0) await take(rest.takeWith(Buffer.alloc(0)));
  if (lines.length > 0) yield lines;
}

/** One buffer instead of a list of pieces: a client can send each byte as one piece. */
function growingBuffer() {
  let held = Buffer.alloc(0);
  let size = 0;
  const add = (bytes: Buffer) => {
    if (size + bytes.length > held.length) {
      const larger = Buffer.allocUnsafe(Math.max(1024, (size + bytes.length) * 2));
      held.copy(larger, 0, 0, size);
      held = larger;
    }
    bytes.copy(held, size);
    size += bytes.length;
  };
  return {
    size: () => size,
    add,
    /** The content followed by `bytes`; valid until the next piece is added. */
    takeWith: (bytes: Buffer): Buffer => {
      add(bytes);
      const whole = held.subarray(0, size);
      size = 0;
      // The memory of a long line is released: most lines are short.
      if (held.length > 1024 * 1024) held = Buffer.alloc(0);
      return whole;
    },
  };
}

function readLine(bytes: Buffer, number: number): Record<string, unknown> {
  if (!isUtf8(bytes)) throw errors.invalidJson(`line ${number} is not valid UTF-8.`);
  const text = bytes.toString('utf8');
  let value: unknown;
  try {
    // Some programs write a byte order mark.
    value = parseJsonText(number === 1 && text.startsWith('\uFEFF') ? text.slice(1) : text);
  } catch (error) {
    if (error instanceof RowhouseError)
      throw errors.invalidJson(`line ${number} contains an unpaired surrogate.`);
    throw errors.invalidJson(`line ${number} ${explain(error as Error)}`);
  }
  return asRow(value, number);
}

/** The same, with turns for other requests. */
async function readLongLine(bytes: Buffer, number: number): Promise<Record<string, unknown>> {
  const isMarked = number === 1 && bytes.subarray(0, 3).equals(byteOrderMark);
  try {
    return asRow(await parseLargeJson(isMarked ? bytes.subarray(3) : bytes, { exact: true }), number);
  } catch (error) {
    if (error instanceof LargeSyntaxError) throw errors.invalidJson(`line ${number} ${unclear}`);
    if (!(error instanceof RowhouseError)) throw error;
    if (error.code === 'invalid_json')
      throw new RowhouseError(error.code, `Line ${number}: ${error.message}`);
    throw problemAt(number, error.message.replace('the body ', ''));
  }
}

const byteOrderMark = Buffer.from('\uFEFF');

function asRow(value: unknown, number: number): Record<string, unknown> {
  if (!isJsonObject(value)) throw problemAt(number, 'must be a JSON object of column names and values');
  return value;
}

/** V8's message quotes the input; only its position, if it has one, is passed on. */
function explain({ message }: Error): string {
  const position = /position (\d+)/.exec(message)?.[1];
  return position === undefined ? unclear : `has an unexpected character at column ${Number(position) + 1}.`;
}

const unclear =
  'is invalid: check its quotes, commas and end. Write one object per line, without line breaks inside it.';

async function* toCopyPieces(
  lines: readonly Line[],
  columns: readonly ImportColumn[],
  names: readonly string[],
): AsyncGenerator<Buffer, void> {
  const out = new TextPieces();
  for (const { number, row } of lines) {
    checkKeys(row, names, number);
    for (const [index, column] of columns.entries()) {
      const value = row[column.name];
      if (index > 0) out.add('\t');
      if (isLarge(value)) await addCopyValue(out, value, column, number);
      else out.add(toCopyValue(value, column, number));
    }
    out.add('\n');
    yield* out.take();
  }
  yield* out.end().pieces;
}

/** Like `toCopyValue`, with turns for other requests. */
async function addCopyValue(
  out: TextPieces,
  value: unknown,
  column: ImportColumn,
  number: number,
): Promise<void> {
  const { name, isJson, isArray, record } = column;
  const escaped = (slice: string) => {
    if (slice.includes('\0'))
      throw problemAt(number, `${quoted(name)} contains a NUL character, which PostgreSQL does not support`);
    return special.test(slice) ? slice.replace(specials, escapeOf) : slice;
  };
  if (record && typeof value !== 'string')
    throw problemAt(number, `${quoted(name)} is larger than 64 KB, the limit for a composite value`);
  if (isArray && Array.isArray(value)) await addArray(out, value, isJson ? 'json' : 'any', escaped);
  else if (typeof value === 'string' && (!isJson || isArray)) await addText(out, value, escaped);
  else await addJson(out, value, escaped);
}

function toCopyValue(value: unknown, column: ImportColumn, number: number): string {
  if (value === null) return '\\N';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (value instanceof ExactNumber) return value.text;
  const text = toText(value, column, number);
  if (text.includes('\0'))
    throw problemAt(
      number,
      `${quoted(column.name)} contains a NUL character, which PostgreSQL does not support`,
    );
  return special.test(text) ? text.replace(specials, escapeOf) : text;
}

function toText(value: unknown, { name, isJson, isArray, record }: ImportColumn, number: number): string {
  try {
    if (record) {
      return toRecordText(value, record, (key) => {
        throw problemAt(number, `${quoted(name)} has the key ${quoted(key)}, which its type does not have`);
      });
    }
    if (isArray && Array.isArray(value)) return isJson ? toJsonArrayText(value) : toArrayText(value);
    // For an array column, PostgreSQL's text of an array is accepted too.
    return typeof value === 'string' && (!isJson || isArray) ? value : toJsonText(value);
  } catch (error) {
    if (error instanceof RangeError) throw problemAt(number, `${quoted(name)} is nested too deeply`);
    throw error;
  }
}

const special = /[\\\t\n\r]/;
const specials = /[\\\t\n\r]/g;
const escapes: Record<string, string> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' };
const escapeOf = (character: string) => escapes[character] as string;

function checkKeys(row: Record<string, unknown>, names: readonly string[], number: number): void {
  const keys = Object.keys(row);
  if (keys.length === names.length && keys.every((key, index) => key === names[index])) return;
  for (const key of keys) {
    if (!names.includes(key)) {
      throw problemAt(number, `has the key ${quoted(key)}, which the first line does not have; ${sameKeys}`);
    }
  }
  for (const name of names) {
    if (!Object.hasOwn(row, name)) throw problemAt(number, `lacks the key ${quoted(name)}; ${sameKeys}`);
  }
}

const sameKeys = 'every line must have the keys of the first, with null where there is no value';

function checkColumns(columns: readonly ImportColumn[], names: readonly string[]): void {
  const given = new Set(columns.map(({ name }) => name));
  for (const name of names) if (!given.has(name)) throw problemAt(1, `${quoted(name)} is not a column`);
  if (columns.length !== names.length)
    throw new Error('The columns of an import are the keys of its first line.');
}

/** Only spaces, tabs and carriage returns. */
function isBlank(bytes: Buffer): boolean {
  for (const byte of bytes) if (byte !== 32 && byte !== 9 && byte !== 13) return false;
  return true;
}

function tooLong(number: number, maxBytes: number): RowhouseError {
  return problemAt(number, `is longer than ${maxBytes} bytes, the limit for a line`);
}

function problemAt(number: number, problem: string): RowhouseError {
  return errors.invalidRequest([{ path: `line ${number}`, problem }]);
}

function quoted(name: string): string {
  return JSON.stringify(name.length > 80 ? `${name.slice(0, 80)}…` : name);
}
