// Finds the value that PostgreSQL refused. PostgreSQL names a parameter, or nothing if it parses JSON rows itself. Then
// sizes and ranges are checked again here, and other values are found by what the message quotes. The result only makes
// an error message clearer: no decision depends on it.
import { ExactNumber } from '../../query/json/json-text.ts';
import { isLarge } from '../../query/json/large-json.ts';
import type { Column } from '../catalog/catalog.ts';
import type { WriteInput } from './statement.ts';
import { isRewritten, isSimple } from './values.ts';

export type Culprit = Readonly<{
  column: Column;
  value: unknown;
  /** The row's index in the body; null: the body is a single row. */
  index: number | null;
}>;

/** `where`: PostgreSQL's CONTEXT. */
export function findCulprit(
  state: string,
  message: string,
  where: string | undefined,
  input: WriteInput,
): Culprit | null {
  const number = /\bparameter \$(\d+)/.exec(where ?? '')?.[1];
  if (number !== undefined) {
    const column = input.parameters[Number(number) - 1];
    return column ? { column, value: input.rows[0]?.[column.name], index: input.firstIndex } : null;
  }
  if (state === '22P05') return firstOf(input, (text) => text.includes('\0'));
  // With any other CONTEXT the project's code raised the error, and it may be about something else.
  if (where || !state.startsWith('22')) return null;
  if (state === '22001') return firstOf(input, isTooLong);
  if (state === '22003') return firstOf(input, isOutOfRange) ?? findQuoted(message, input);
  return findQuoted(message, input) ?? findMisshapen(input);
}

function firstOf(input: WriteInput, is: (text: string, column: Column) => boolean): Culprit | null {
  for (const culprit of cells(input)) {
    if (leavesOf(culprit.value).some((text) => is(text, culprit.column))) return culprit;
  }
  return null;
}

function* cells({ columns, rows, firstIndex }: WriteInput): Generator<Culprit, void> {
  let left = maxCells;
  for (const [position, row] of rows.entries()) {
    left -= columns.length;
    if (left < 0) return;
    const index = firstIndex === null ? null : firstIndex + position;
    for (const column of columns) yield { column, value: row[column.name], index };
  }
}

/** If several columns hold the quoted value, the one whose type the message names; null if that is ambiguous. */
function findQuoted(message: string, input: WriteInput): Culprit | null {
  const quoted = quotedIn(message);
  const found = new Map<Column, Culprit>();
  for (const culprit of cells(input)) {
    const { column, value } = culprit;
    if (found.has(column) || takesAnything.has(column.shape.is)) continue;
    if (leavesOf(value).some((text) => !isLarge(text) && quoted.has(text))) found.set(column, culprit);
  }
  const [only, second] = found.values();
  if (only && !second) return only;
  const [named, other] = [...found.values()].filter(({ column }) => message.includes(baseType(column)));
  return named && !other ? named : null;
}

/** A value that is an array or object where the column takes none, or the reverse. Text can be either. */
function findMisshapen(input: WriteInput): Culprit | null {
  for (const culprit of cells(input)) {
    const { column, value } = culprit;
    if (value === null || typeof value === 'string' || isRewritten(column)) continue;
    const { is, isArray } = column.shape;
    const isWhole = typeof value !== 'object' || value instanceof ExactNumber;
    if (isSimple(column) ? !isWhole && !takesAnything.has(is) : isWhole || Array.isArray(value) !== isArray) {
      return culprit;
    }
  }
  return null;
}

/** Other requests wait during this search, so it covers only the first rows of very many. */
const maxCells = 20_000;

const takesAnything = new Set(['text', 'json', 'jsonb']);

/** The text between any two quotes, because a value may itself contain quotes. */
function quotedIn(message: string): Set<string> {
  const positions: number[] = [];
  for (let at = message.indexOf('"'); at >= 0 && positions.length < 16; at = message.indexOf('"', at + 1)) {
    positions.push(at);
  }
  return new Set(
    positions.flatMap((start) => positions.map((end) => message.slice(start + 1, Math.max(start, end)))),
  );
}

function isTooLong(text: string, { type }: Column): boolean {
  const size = /^character(?: varying)?\((\d+)\)/.exec(type)?.[1];
  if (size === undefined) return false;
  // PostgreSQL ignores trailing spaces. No regular expression: / +$/ is quadratic for long runs of spaces.
  let end = text.length;
  while (text.charCodeAt(end - 1) === 32) end--;
  let characters = 0;
  for (let at = 0; at < end && characters <= Number(size); characters++)
    at += (text.charCodeAt(at) & 0xfc00) === 0xd800 ? 2 : 1;
  return characters > Number(size);
}

const wholeNumbers = new Map([
  ['smallint', 2 ** 15],
  ['integer', 2 ** 31],
  ['bigint', 2 ** 63],
]);

function isOutOfRange(text: string, { type }: Column): boolean {
  const base = type.replace(/\[\]$/, '');
  const [, precision, scale = '0'] = /^numeric\((\d+)(?:,(-?\d+))?\)$/.exec(base) ?? [];
  const bound = wholeNumbers.get(base) ?? (precision && 10 ** (Number(precision) - Number(scale)));
  const size = Number(text);
  // A double is not exact near the bound; such a value is found by what the message quotes.
  return typeof bound === 'number' && (size >= bound || size < -bound);
}

function baseType({ type }: Column): string {
  return type.replace(/\(.*|\[\]$/g, '');
}

/** The scalars in a value, as text. Iterative, because it may be nested as deep as the body's size allows. */
function leavesOf(value: unknown): string[] {
  const leaves: string[] = [];
  if (typeof value === 'object' && isLarge(value)) return leaves;
  const pending: unknown[] = [value];
  while (pending.length > 0) {
    const one = pending.pop();
    if (one === null || one === undefined) continue;
    if (typeof one === 'object' && !(one instanceof ExactNumber)) {
      for (const entry of Object.values(one)) pending.push(entry);
    } else leaves.push(one instanceof ExactNumber ? one.text : String(one));
  }
  return leaves;
}
