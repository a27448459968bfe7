// A table's columns and rows as the grid wants them, with the staged edits laid over.
import type { SchemaResponse } from '@rowhouse/api';
import type { Reference, Table } from '../api/queries.ts';
import type { GridColumn, GridSource } from '../grid/source.ts';
import type { Difference, Staged, StoredRow } from '../grid/staged.ts';
import type { Sort } from './filters.ts';
import { isCut } from './long-values.ts';

export function gridColumns(
  table: Table,
  enums: SchemaResponse['enums'],
  sorts: readonly Sort[],
  isEditable: boolean,
): GridColumn[] {
  return table.columns.map((column) => {
    const sort = sorts.find((candidate) => candidate.column === column.name);
    const reference = table.references.find(({ columns }) => columns.includes(column.name));
    return {
      name: column.name,
      type: column.type,
      isKey: table.primary_key.includes(column.name),
      refersTo: reference ? targetOf(reference, column.name) : undefined,
      isNullable: !column.not_null,
      isReadOnly: !isEditable || column.generated !== null || column.identity === 'always',
      choices: choicesOf(column, enums),
      sort: sort ? (sort.isDescending ? 'descending' : 'ascending') : undefined,
    };
  });
}

export function gridSource(
  columns: readonly GridColumn[],
  rows: readonly StoredRow[],
  staged: Staged,
  conflicts: readonly Difference[],
  hasKey: boolean,
): GridSource {
  const conflicting = new Set(conflicts.map(({ key }) => key));
  return {
    columns,
    rowCount: rows.length,
    valueAt: (row, column) => {
      const stored = rows[row];
      if (!stored) return null;
      const set = staged.changed.get(stored.key)?.set;
      return set && column in set ? set[column] : stored.values[column];
    },
    isCut: (row, column) => {
      const stored = rows[row];
      // Rows without a key are read whole: nothing could find them again.
      if (!hasKey || !stored || staged.inserted.has(stored.key)) return false;
      const set = staged.changed.get(stored.key)?.set;
      if (set && column in set) return false;
      return isCut(stored.values[column], columns.find(({ name }) => name === column)?.type ?? '');
    },
    rowState: (row) => {
      const key = rows[row]?.key ?? '';
      if (conflicting.has(key)) return 'conflict';
      if (staged.inserted.has(key)) return 'new';
      if (staged.deleted.has(key)) return 'deleted';
      return staged.changed.has(key) ? 'changed' : null;
    },
    isChanged: (row, column) => {
      const set = staged.changed.get(rows[row]?.key ?? '')?.set;
      return set !== undefined && column in set;
    },
  };
}

/** The column to which this column refers, also in a foreign key with several columns. */
const targetOf = ({ columns, target, target_columns }: Reference, column: string) =>
  `${target.name}.${target_columns[columns.indexOf(column)]}`;

function choicesOf(
  column: Table['columns'][number],
  enums: SchemaResponse['enums'],
): readonly string[] | undefined {
  if (column.type === 'boolean') return ['true', 'false'];
  if (!column.enum) return undefined;
  return enums.find(({ schema, name }) => column.enum === name || column.enum === `${schema}.${name}`)
    ?.values;
}
