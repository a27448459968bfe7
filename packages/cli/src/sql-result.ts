// The result of a statement as text: a table, or one field on each line.
import type { Result } from './sql-run.ts';
import { formatFields, formatTable } from './table.ts';

const numeric = /^(int[248]|numeric|float[48]|oid|money)$/;
/** On a terminal. Other programs get whole values. */
const widest = 80;

export function formatResult(result: Result, { isExpanded = false } = {}): string {
  const { columns, rows, types, truncated } = result;
  if (columns.length === 0) return `${tagOf(result)} (${timeOf(result)})`;
  const more = truncated ? ', and there are more: raise --limit' : '';
  const end = `(${rows.length} ${rows.length === 1 ? 'row' : 'rows'}${more}, ${timeOf(result)})`;
  const textOf = (row: Record<string, unknown>) => columns.map((name) => cellOf(row[name]));
  if (isExpanded) {
    const records = rows.map((row, index) => {
      const cells = textOf(row);
      const fields = columns.map((name, at) => [name, cells[at] ?? ''] as const);
      return `— ${index + 1}\n${formatFields(fields)}`;
    });
    return [...records, end].join('\n');
  }
  const head = columns.map((title, index) => ({
    title,
    ...(numeric.test(types[index] ?? '') && { align: 'right' as const }),
    ...(process.stdout.isTTY && { max: widest }),
  }));
  return `${formatTable(head, rows.map(textOf))}\n${end}`;
}

function cellOf(value: unknown): string {
  if (value === null || value === undefined) return 'null';
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  return text.replaceAll('\r', '').replaceAll('\n', '↵').replaceAll('\t', ' ');
}

const tagOf = ({ command, affected }: Result) =>
  /^(INSERT|UPDATE|DELETE|MERGE|COPY)/.test(command) ? `${command} ${affected}` : command;

const timeOf = ({ duration_ms: ms }: Result) =>
  ms < 1000 ? `${ms.toFixed(1)} ms` : `${(ms / 1000).toFixed(2)} s`;
