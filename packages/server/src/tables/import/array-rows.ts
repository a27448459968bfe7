// Converts the body of an insert, a JSON array of rows, to COPY's text format. A row that the copier declines is parsed. A
// body that COPY would treat differently from an insert, or that is not valid, is declined as a whole: then it is parsed and
// inserted in the ordinary way (write/insert.ts), which also reports what is wrong with it.
import { isUtf8 } from 'node:buffer';
import type { Slices } from '../../lib/fair-reads.ts';
import { isJsonObject, parseJsonText } from '../../query/json/json-text.ts';
import { sliceBytes } from '../../query/json/large-json.ts';
import type { Column, Table } from '../catalog/catalog.ts';
import { toRow } from './json-lines.ts';
import type { ImportColumn } from './line-copier.ts';
import { LineCopier } from './line-copier.ts';

/** A body of rows as it was sent: it is not parsed if its rows can be copied, and json columns store their text. */
export type SentRows = Readonly<{ bytes: Buffer; parse: () => unknown }>;

/** Below it, an insert is as fast, and can share its commit with others. Above it, the check of the text blocks too long. */
const [minBytes, maxBytes] = [8 * 1024, 8 * 1024 * 1024];

/** COPY returns no rows, and knows no conflicts. */
export function mayCopy(rawQuery: string, bytes: Buffer): boolean {
  return (
    rawQuery === 'returning=minimal' &&
    bytes.length >= minBytes &&
    bytes.length <= maxBytes &&
    bytes[0] === openBracket
  );
}

/** `pieces`: what COPY reads. */
export type ArrayRows = Readonly<{ columns: readonly Column[]; pieces: readonly Buffer[] }>;

/** Longer rows are parsed. */
const copiedRowBytes = 16 * 1024;

/** null: declined. Nothing has been written to PostgreSQL. */
export function* readArrayRows(table: Table, bytes: Buffer): Slices<ArrayRows | null> {
  if (!isUtf8(bytes) || bytes[0] !== openBracket) return null;
  let at = skipSpaces(bytes, 1);
  const first = parseObject(bytes, at);
  const columns = first && columnsOf(table, Object.keys(first.row));
  if (!columns) return null;
  const copied = columns.map(({ name, shape }) => ({
    name,
    isJson: shape.is === 'jsonb',
    isArray: false,
    isInteger: shape.isInteger === true,
  }));
  const copier = new LineCopier(copied);
  const pieces: Buffer[] = [];
  let sliceStart = at;
  for (;;) {
    // Also by what was read: a row that is parsed can be long, or leave little.
    if (copier.isFullFor(copiedRowBytes) || at - sliceStart > sliceBytes) {
      pieces.push(...copier.take());
      sliceStart = at;
      yield;
    }
    const end = copier.addObject(bytes, at, Math.min(bytes.length, at + copiedRowBytes));
    at = skipSpaces(bytes, end >= 0 ? end : addParsed(copier, bytes, at, copied));
    if (bytes[at] === closeBracket) {
      const isWhole = skipSpaces(bytes, at + 1) === bytes.length;
      return isWhole ? { columns, pieces: [...pieces, ...copier.take()] } : null;
    }
    if (bytes[at] !== comma) return null;
    at = skipSpaces(bytes, at + 1);
  }
}

/** Returns the end of the row, or the end of all bytes if the row cannot be copied. */
function addParsed(copier: LineCopier, bytes: Buffer, at: number, columns: readonly ImportColumn[]): number {
  const parsed = parseObject(bytes, at);
  if (!parsed || Object.keys(parsed.row).length !== columns.length) return bytes.length;
  if (!columns.every(({ name }) => Object.hasOwn(parsed.row, name))) return bytes.length;
  try {
    copier.addText(toRow(parsed.row, columns, 0));
  } catch {
    return bytes.length;
  }
  return parsed.end;
}

/** In the order of the keys. null: a column that cannot be set, or whose values COPY and JSON read differently. */
function columnsOf(table: Table, names: readonly string[]): Column[] | null {
  const columns = names.flatMap((name) => table.columns.get(name) ?? []);
  const areFit = columns.every(
    ({ shape, generated, identity }) =>
      !shape.isArray &&
      shape.is !== 'composite' &&
      // PostgreSQL stores the text of a json value as it is.
      shape.is !== 'json' &&
      generated === null &&
      identity !== 'always',
  );
  return areFit && columns.length === names.length && columns.length > 0 ? columns : null;
}

/** null: there is no valid object of a usual size. */
function parseObject(bytes: Buffer, start: number): { row: Record<string, unknown>; end: number } | null {
  const end = endOfObject(bytes, start, Math.min(bytes.length, start + sliceBytes));
  if (end < 0) return null;
  try {
    const row = parseJsonText(bytes.toString('utf8', start, end), 'spelling');
    return isJsonObject(row) ? { row, end } : null;
  } catch {
    return null;
  }
}

/** -1: it does not end before `stop`. */
function endOfObject(bytes: Buffer, start: number, stop: number): number {
  if (bytes[start] !== openBrace) return -1;
  let depth = 0;
  for (let at = start; at < stop; at++) {
    const byte = bytes[at];
    if (byte === quote) {
      for (at++; at < stop && bytes[at] !== quote; at++) if (bytes[at] === backslash) at++;
    } else if (byte === openBrace || byte === openBracket) depth++;
    else if (byte === closeBrace || byte === closeBracket) {
      if (--depth === 0) return at + 1;
    }
  }
  return -1;
}

function skipSpaces(bytes: Buffer, start: number): number {
  let at = start;
  for (; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte !== 32 && byte !== 10 && byte !== 13 && byte !== 9) break;
  }
  return at;
}

const [quote, comma, openBracket, backslash, closeBracket, openBrace, closeBrace] = [
  34, 44, 91, 92, 93, 123, 125,
];
