// Converts a JSON-lines body to COPY's text format as it streams: at most one line and the latest piece are in memory.
// The keys of the first line are the columns; every other line must have the same keys.

import { errors, RowhouseError } from '../../errors/errors.ts';
import { atOnce, inTurns } from '../../lib/fair-reads.ts';
import { toArrayText, toJsonArrayText } from '../../query/json/array-text.ts';
import { ExactNumber, isJsonObject, parseJsonText, toJsonText } from '../../query/json/json-text.ts';
import { isLarge, LargeSyntaxError, parseLargeJson, sliceBytes } from '../../query/json/large-json.ts';
import { addArray, addJson, addText, TextPieces } from '../../query/json/large-text.ts';
import { JsonText, keepJsonTexts } from '../../query/json/sent-json.ts';
import { namesOf } from '../../query/json/wide-object.ts';
import { jsonLineBytes } from '../../settings/limits/requests.ts';
import { type ImportColumn, LineCopier } from './line-copier.ts';
import { Lines, problemAt, quoted } from './lines.ts';
import { toRecordText } from './record-text.ts';

export type JsonLines = {
  /** The keys of the first line, in order. */
  names: readonly string[];
  /**
   * Bytes for COPY … FROM STDIN in text format. `columns` has the same names, in the order that the values shall have.
   */
  rows(columns: readonly ImportColumn[]): AsyncGenerator<Buffer, void>;
};

const maxColumns = 1600;

/** Reads the first line. The body's iterator is never closed: its owner may still have to respond on its connection. */
export async function openJsonLines(
  body: AsyncIterable<Buffer>,
  { maxBytes = jsonLineBytes } = {},
): Promise<JsonLines> {
  const lines = new Lines(body, maxBytes);
  if (!(await lines.next())) {
    throw errors.invalidRequest([{ path: '', problem: 'the body must contain at least one line' }]);
  }
  const names = namesOf(await readRow(lines));
  if (names.length === 0) throw problemAt(1, 'has no keys; the keys of the first line name the columns');
  if (names.length > maxColumns) throw problemAt(1, `has more than ${maxColumns} keys`);
  return {
    names,
    async *rows(columns) {
      checkColumns(columns, names);
      yield* toCopyPieces(lines, columns, names);
    },
  };
}

async function readRow(line: Lines): Promise<Record<string, unknown>> {
  const { number, size } = line;
  const bytes = line.bytes.subarray(line.start, line.end);
  if (size > sliceBytes) return readLongLine(bytes, number);
  if (!line.isUtf8) throw errors.invalidJson(`line ${number} is not valid UTF-8.`);
  const text = bytes.toString('utf8');
  let value: unknown;
  try {
    // Some programs write a byte order mark.
    value = parseJsonText(number === 1 && text.startsWith('\uFEFF') ? text.slice(1) : text, 'spelling');
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
    return asRow(await parseLargeJson(isMarked ? bytes.subarray(3) : bytes, { exact: 'spelling' }), number);
  } catch (error) {
    if (error instanceof LargeSyntaxError) throw errors.invalidJson(`line ${number} ${unclear}`);
    if (!(error instanceof RowhouseError)) throw error;
    if (error.code === 'invalid_json')
      throw new RowhouseError(error.code, `Line ${number}: ${error.message}`);
    throw problemAt(number, error.message.replace('the body ', ''));
  }
}

function hasMark({ number, bytes, start }: Lines): boolean {
  return number === 1 && bytes.subarray(start, start + byteOrderMark.length).equals(byteOrderMark);
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

/** From the current line to the last one. */
async function* toCopyPieces(
  lines: Lines,
  columns: readonly ImportColumn[],
  names: readonly string[],
): AsyncGenerator<Buffer, void> {
  const copier = new LineCopier(columns);
  const jsonNames = new Set(
    columns.filter(({ isJson, isArray }) => isJson && !isArray).map(({ name }) => name),
  );
  const isInOrder = columns.every(({ name }, index) => name === names[index]);
  do {
    do {
      if (copier.isFullFor(lines.size)) yield* copier.take();
      const { bytes, start, end, number } = lines;
      const mayBeOrdinary = isInOrder && lines.isUtf8 && lines.size <= sliceBytes;
      if (mayBeOrdinary && copier.add(bytes, start, end)) continue;
      const row = await readRow(lines);
      checkKeys(row, names, number);
      if (jsonNames.size > 0) {
        const keeping = keepJsonTexts(
          [row],
          jsonNames,
          bytes,
          hasMark(lines) ? start + byteOrderMark.length : start,
        );
        if (lines.size > sliceBytes) await inTurns(keeping);
        else atOnce(keeping);
      }
      if (lines.size > sliceBytes) {
        yield* copier.take();
        yield* await toLargeRow(row, columns, number);
      } else copier.addText(toRow(row, columns, number));
    } while (lines.nextHere());
    yield* copier.take();
  } while (await lines.next());
}

export function toRow(
  row: Record<string, unknown>,
  columns: readonly ImportColumn[],
  number: number,
): string {
  return `${columns.map((column) => toCopyValue(row[column.name], column, number)).join('\t')}\n`;
}

/** The same for a long line, with turns for other requests. */
async function toLargeRow(
  row: Record<string, unknown>,
  columns: readonly ImportColumn[],
  number: number,
): Promise<Buffer[]> {
  const out = new TextPieces();
  for (const [index, column] of columns.entries()) {
    const value = row[column.name];
    if (index > 0) out.add('\t');
    if (isLarge(value instanceof JsonText ? value.text : value))
      await addCopyValue(out, value, column, number);
    else out.add(toCopyValue(value, column, number));
  }
  out.add('\n');
  return [...out.end().pieces];
}

/** Like `toCopyValue`, with turns for other requests. */
async function addCopyValue(
  out: TextPieces,
  value: unknown,
  column: ImportColumn,
  number: number,
): Promise<void> {
  const { name, isJson, isArray, isInteger, record } = column;
  const escaped = (slice: string) => {
    if (slice.includes('\0'))
      throw problemAt(number, `${quoted(name)} contains a NUL character, which PostgreSQL does not support`);
    return special.test(slice) ? slice.replace(specials, escapeOf) : slice;
  };
  if (record && typeof value !== 'string')
    throw problemAt(number, `${quoted(name)} is larger than 64 KB, the limit for a composite value`);
  const of = isJson ? 'json' : isInteger ? 'integer' : 'any';
  if (value instanceof JsonText) await addText(out, value.text, escaped);
  else if (isArray && Array.isArray(value)) await addArray(out, value, of, escaped);
  else if (typeof value === 'string' && (!isJson || isArray)) await addText(out, value, escaped);
  else await addJson(out, value, escaped);
}

function toCopyValue(value: unknown, column: ImportColumn, number: number): string {
  if (value === null) return '\\N';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (value instanceof ExactNumber) return column.isInteger ? value.whole : value.text;
  const text = value instanceof JsonText ? value.text : toText(value, column, number);
  if (text.includes('\0'))
    throw problemAt(
      number,
      `${quoted(column.name)} contains a NUL character, which PostgreSQL does not support`,
    );
  return special.test(text) ? text.replace(specials, escapeOf) : text;
}

function toText(
  value: unknown,
  { name, isJson, isArray, isInteger, record }: ImportColumn,
  number: number,
): string {
  try {
    if (record) {
      return toRecordText(value, record, (key) => {
        throw problemAt(number, `${quoted(name)} has the key ${quoted(key)}, which its type does not have`);
      });
    }
    if (isArray && Array.isArray(value))
      return isJson ? toJsonArrayText(value) : toArrayText(value, isInteger ? 'integer' : 'any');
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
  const keys = namesOf(row);
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
