// Reads the rows of a request body and checks each against the table. Nothing is ignored, filled in or truncated.
import { errors } from '../../errors/errors.ts';
import type { Slices } from '../../lib/fair-reads.ts';
import { isJsonObject } from '../../query/json/json-text.ts';
import { isLarge, markLarge } from '../../query/json/large-json.ts';
import { JsonParameter } from '../../query/json/parameters.ts';
import { namesOf } from '../../query/json/wide-object.ts';
import type { Column, Table } from '../catalog/catalog.ts';
import { getColumn } from '../sql/expressions.ts';
import { refuse, toColumnJson, toJson, toLargeColumnJson } from './values.ts';

export type Row = Readonly<Record<string, unknown>>;

/** Consecutive rows with the same keys. */
export type Run = Readonly<{
  /** In the table's order, so that the statement's text does not depend on the order of the keys. */
  columns: readonly Column[];
  rows: readonly Row[];
  /** The first row's index in the body; null: the body is a single row. */
  firstIndex: number | null;
}>;

/** Each run becomes one statement. */
const maxRuns = 1_000;
/** Processed before other requests get a turn. */
const rowsAtOnce = 1_000;

/** A missing key means the column's default, so rows with other keys need another statement. */
export function* readRuns(table: Table, body: unknown): Slices<Run[]> {
  if (!Array.isArray(body)) {
    const row = readObject(body, '', 'the body must be a JSON object, or an array of them');
    return [{ columns: columnsOf(table, row, null), rows: listOf(row, body), firstIndex: null }];
  }
  const runs: (Run & { rows: Row[] })[] = [];
  let names = new Set<string>();
  for (const [index, entry] of body.entries()) {
    if (index % rowsAtOnce === rowsAtOnce - 1) yield;
    const row = readObject(entry, String(index), 'must be a JSON object');
    const keys = namesOf(row);
    const last = runs.at(-1);
    if (last && keys.length === names.size && keys.every((key) => names.has(key))) {
      last.rows.push(row);
      continue;
    }
    if (runs.length === maxRuns) {
      throw refuse(
        String(index),
        `the set of keys changes more than ${maxRuns} times from row to row`,
        'Sort the rows by their keys, or send the same keys in all rows.',
      );
    }
    runs.push({ columns: columnsOf(table, row, index), rows: listOf(row, body), firstIndex: index });
    names = new Set(keys);
  }
  return runs;
}

/** Marked as large if the body is: the size of a single row is not known. */
function listOf(row: Row, body: unknown): Row[] {
  return isLarge(body) ? markLarge([row]) : [row];
}

export function readChanges(table: Table, body: unknown): Run {
  const row = readObject(body, '', 'the body must be a JSON object of column name to value');
  const columns = columnsOf(table, row, null);
  if (columns.length === 0) throw refuse('', 'the body must contain at least one column to change');
  return { columns, rows: [row], firstIndex: null };
}

/** The path of a value in the body. */
export function pathOf(index: number | null, name: string): string {
  return index === null ? name : `${index}.${name}`;
}

/** The rows as JSON for json_to_recordset: an array of objects with exactly the run's columns. */
export function* toJsonRows({ columns, rows, firstIndex }: Run): Slices<string | JsonParameter> {
  const written: Row[] = [];
  for (const [position, row] of rows.entries()) {
    if (position % rowsAtOnce === rowsAtOnce - 1) yield;
    const index = firstIndex === null ? null : firstIndex + position;
    const changed: [string, unknown][] = [];
    for (const column of columns) {
      const { name } = column;
      const path = () => pathOf(index, name);
      const value = isLarge(row[name])
        ? yield* toLargeColumnJson(row[name], column, path)
        : toColumnJson(row[name], column, path);
      if (value !== row[name]) changed.push([name, value]);
    }
    const own = changed.length === 0 ? row : { ...row, ...Object.fromEntries(changed) };
    written.push(isLarge(row) ? markLarge(own) : own);
  }
  return isLarge(rows) ? new JsonParameter(markLarge(written)) : toJson(written, '');
}

/**
 * Refuses rows that lack required columns before PostgreSQL would. Only for tables on which no code of the project,
 * such as a trigger, could still fill them in.
 */
export function refuseMissing(table: Table, { columns, firstIndex }: Run): void {
  if (!table.isPlainToWrite) return;
  const missing = [...table.columns.values()].filter(
    (column) =>
      column.notNull &&
      !column.hasDefault &&
      column.identity === null &&
      column.generated === null &&
      !columns.includes(column),
  );
  if (missing.length > 0)
    throw errors.columnsMissing(
      table.name,
      missing.map(({ name }) => name),
      firstIndex,
    );
}

function columnsOf(table: Table, row: Row, index: number | null): Column[] {
  for (const name of namesOf(row)) {
    const path = pathOf(index, name);
    const { identity, generated } = getColumn({ table, alias: 't0' }, name, path);
    if (generated) {
      throw refuse(path, 'is a generated column and cannot be set; omit it');
    }
    if (identity === 'always') {
      throw refuse(
        path,
        'is an identity column (generated always) and cannot be set; omit it',
        'To allow values for it: ALTER TABLE … ALTER COLUMN … SET GENERATED BY DEFAULT.',
      );
    }
  }
  return [...table.columns.values()].filter(({ name }) => Object.hasOwn(row, name));
}

function readObject(value: unknown, path: string, problem: string): Row {
  if (!isJsonObject(value)) throw refuse(path, problem);
  return value;
}
