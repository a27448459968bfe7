// Rows as CSV (RFC 4180), for spreadsheets and other programs.
import { clean } from './table.ts';

type Row = Readonly<Record<string, unknown>>;

/** A column for each key of any row; nested values as JSON. */
export function formatCsv(rows: readonly Row[]): string {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return [columns, ...rows.map((row) => columns.map((column) => row[column]))]
    .map((cells) => cells.map(cellOf).join(','))
    .join('\n');
}

function cellOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  // A terminal would obey control characters in a project's name. A file keeps them.
  const shown = process.stdout.isTTY ? clean(text) : text;
  return /[",\r\n]/.test(shown) ? `"${shown.replaceAll('"', '""')}"` : shown;
}
