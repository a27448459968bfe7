// Long values: the grid reads only their beginning, and the whole value when a person opens or copies it.
import type { PageResponse } from '@rowhouse/api';
import type { Table } from '../api/queries.ts';
import { api, path } from '../api/request.ts';
import { isNew, type Staged, type StoredRow } from '../grid/staged.ts';
import { kindOf, previewMax, textOf } from '../grid/value.ts';
import { filterParam } from './filters.ts';
import { tableName } from './table-name.ts';

/** One more than a cell shows, so that a cut value can be told from one that just fits. */
export const readChars = previewMax + 1;

/** As many bytes as the service leaves of a bytea, which it writes in hex. */
export const readBytes = Math.floor(readChars / 2);

/**
 * Whether the service may have cut it: then it has exactly this length. Longer ones are whole, such as those of a column that the
 * rows are sorted by. A whole value of just this length counts as cut: reading it again does no harm.
 */
export function isCut(value: unknown, type: string): boolean {
  if (typeof value !== 'string' || value.length < readChars) return false;
  if (type === 'bytea') return value.length === 2 + 2 * readBytes;
  const canBe = type === 'text' || /^(character varying|varchar)\b/.test(type) || kindOf(type) === 'json';
  return canBe && !type.endsWith('[]') && [...value].length === readChars;
}

type Place = { slug: string; table: Table };

/** Each row with a long value is read by a request of its own. */
const rowsMax = 100;

/** The row as it is now, with whole values; null: it is gone. */
export const readWholeRow = (place: Place, row: StoredRow) => readOne(place, row, []);

/** The same, as the grid reads it. */
export const readRow = (place: Place, row: StoredRow) =>
  readOne(place, row, [['max_value_chars', String(readChars)]]);

async function readOne(
  { slug, table }: Place,
  { values }: StoredRow,
  options: [string, string][],
): Promise<Record<string, unknown> | null> {
  if (table.primary_key.length === 0) throw new Error('A row without a primary key cannot be read again.');
  const key = table.primary_key.map((column) =>
    filterParam({ column, operator: 'eq', value: textOf(values[column]) }),
  );
  const query: [string, string][] = [['limit', '1'], ['numbers', 'string'], ...options, ...key];
  const { rows } = await api.get<PageResponse>(path`projects/${slug}/tables/${tableName(table)}`, query);
  return rows[0] ?? null;
}

/** The values of rows as a person would copy them: whole, with the staged edits. */
export async function readWholeRows(
  place: Place,
  rows: readonly StoredRow[],
  { changed }: Staged,
): Promise<Record<string, unknown>[]> {
  const hasCut = ({ values }: StoredRow) =>
    place.table.columns.some(({ name, type }) => isCut(values[name], type));
  const hasKey = place.table.primary_key.length > 0;
  const isLong = (row: StoredRow) => hasKey && !isNew(row.key) && hasCut(row);
  if (rows.filter(isLong).length > rowsMax)
    throw new Error(`More than ${rowsMax} of these rows have long values. Export them instead.`);
  return Promise.all(
    rows.map(async (row) => {
      const values = isLong(row) ? await readWholeRow(place, row) : row.values;
      if (!values) throw new Error('One of these rows no longer exists. Refresh the table.');
      return { ...values, ...changed.get(row.key)?.set };
    }),
  );
}
