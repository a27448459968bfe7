// A row that fits a table, for examples.
import type { SchemaResponse } from '@rowhouse/api';
import type { Table } from '../api/queries.ts';
import { kindOf } from '../grid/value.ts';

const columnsMax = 3;

export function exampleRow(table: Table, enums: SchemaResponse['enums']): Record<string, unknown> {
  const wanted = table.columns
    .filter((column) => !column.identity && !column.generated && !column.default)
    .sort((a, b) => Number(b.not_null) - Number(a.not_null))
    .filter((column, index) => column.not_null || index < columnsMax);
  return Object.fromEntries(
    wanted.map(({ name, type, enum: enumName }) => {
      const known = enums.find(
        (candidate) => candidate.name === enumName || `${candidate.schema}.${candidate.name}` === enumName,
      );
      return [name, known?.values[0] ?? exampleOf(type, name)];
    }),
  );
}

function exampleOf(type: string, name: string): unknown {
  const byKind = { number: 1, boolean: true, json: { color: 'red' }, array: [], text: name, other: name };
  if (type === 'uuid') return '4f0c2a5e-8f0e-4b8e-9c57-2a1f1f1d3c11';
  if (type.startsWith('timestamp')) return '2026-01-31T12:00:00Z';
  return type === 'date' ? '2026-01-31' : byKind[kindOf(type)];
}
