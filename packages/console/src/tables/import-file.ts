// The beginning of a file that is about to be imported: its columns and first rows. The service reads the whole file itself.
import { importPreviewRows } from '../limits.ts';

export type ImportFormat = 'csv' | 'json-lines';
export type Preview = { format: ImportFormat; columns: string[]; rows: (string | null)[][] };

export const contentTypes = { csv: 'text/csv', 'json-lines': 'application/x-ndjson' } as const;

/** `isWhole`: the text is the whole file. Otherwise its last line may be cut, and is left out. */
export function previewFile(name: string, text: string, isWhole: boolean): Preview {
  const clean = text.replace(/^\uFEFF/, '');
  const isJson = /\.(jsonl|ndjson|json)$/i.test(name) || clean.trimStart().startsWith('{');
  return isJson ? previewJsonLines(clean, isWhole) : previewCsv(clean, isWhole);
}

function previewJsonLines(text: string, isWhole: boolean): Preview {
  const lines = text.split('\n');
  if (!isWhole) lines.pop();
  const objects = lines
    .filter((line) => line.trim() !== '')
    .slice(0, importPreviewRows)
    .map((line, index) => parseObject(line, index + 1));
  const columns = Object.keys(objects[0] ?? {});
  const rows = objects.map((object) => columns.map((column) => textOfJson(object[column])));
  return { format: 'json-lines', columns, rows };
}

function parseObject(line: string, number: number): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      return value as Record<string, unknown>;
    }
  } catch {
    // Reported below.
  }
  throw new Error(`Line ${number} is not a JSON object. JSON lines have one object per line.`);
}

const textOfJson = (value: unknown) =>
  value === null || value === undefined ? null : typeof value === 'string' ? value : JSON.stringify(value);

function previewCsv(text: string, isWhole: boolean): Preview {
  const records = readCsv(text, importPreviewRows + 1, isWhole);
  const [head = [], ...rows] = records;
  return { format: 'csv', columns: head.map((name) => name ?? ''), rows };
}

/** As the service reads it: an empty field is null, "" is an empty text. */
export function readCsv(text: string, max: number, isWhole: boolean): (string | null)[][] {
  const records: (string | null)[][] = [];
  let record: (string | null)[] = [];
  let at = 0;
  while (at < text.length && records.length < max) {
    const field = text[at] === '"' ? readQuoted(text, at) : readPlain(text, at);
    // A field at the end of a part of the file may go on after it.
    if (!isWhole && field.end >= text.length) return records;
    record.push(field.value);
    at = field.end + 1;
    if (text[field.end] === ',') {
      if (at >= text.length) record.push(null);
      if (at < text.length) continue;
    }
    if (text[field.end] === '\r' && text[at] === '\n') at += 1;
    records.push(record);
    record = [];
  }
  return records;
}

function readPlain(text: string, start: number): { value: string | null; end: number } {
  let end = start;
  while (end < text.length && !',\r\n'.includes(text[end] ?? '')) end += 1;
  return { value: end === start ? null : text.slice(start, end), end };
}

function readQuoted(text: string, start: number): { value: string; end: number } {
  let value = '';
  let at = start + 1;
  while (at < text.length) {
    const quote = text.indexOf('"', at);
    if (quote < 0) return { value: value + text.slice(at), end: text.length };
    value += text.slice(at, quote);
    if (text[quote + 1] !== '"') return { value, end: quote + 1 };
    value += '"';
    at = quote + 2;
  }
  return { value, end: text.length };
}

const guesses: [string, RegExp][] = [
  ['bigint', /^-?\d{1,18}$/],
  ['numeric', /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/],
  ['boolean', /^(true|false|t|f)$/i],
  ['uuid', /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i],
  ['date', /^\d{4}-\d\d-\d\d$/],
  ['timestamptz', /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d/],
  ['jsonb', /^[[{].*[\]}]$/s],
];

/** The type that all values of the preview fit, for a new table. */
export function guessType(values: readonly (string | null)[]): string {
  const given = values.filter((value) => value !== null);
  if (given.length === 0) return 'text';
  return guesses.find(([, pattern]) => given.every((value) => pattern.test(value)))?.[0] ?? 'text';
}
