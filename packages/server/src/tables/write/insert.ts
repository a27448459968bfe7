// Compiles rows to the statements that insert them in one transaction. The text depends on the columns, not on the
// values or their number, so that PostgreSQL can keep it prepared. Each statement contains the table's guard: in WHERE
// if there is one, otherwise in RETURNING. The planner evaluates it in both, before anything has run.
import { atOnce, type Slices } from '../../lib/fair-reads.ts';
import type { Column, Table } from '../catalog/catalog.ts';
import type { Item } from '../request/select.ts';
import { getColumn, guard, id, nameOf } from '../sql/expressions.ts';
import { pathOf, type Run, readRuns, refuseMissing, toJsonRows } from './body.ts';
import {
  type CompiledWrite,
  compileReturning,
  definitions,
  type Returning,
  type ReturningClause,
  recordValue,
  refuseUnlessWritable,
  typeGuards,
} from './statement.ts';
import { isSimple, refuse, toColumnText } from './values.ts';

export type InsertOptions = Readonly<{
  /** Columns of a key; null: the primary key. Requires `resolution`. */
  onConflict: readonly string[] | null;
  /** What happens to a row whose key already exists; null: an error. Ignored rows are not returned. */
  resolution: 'merge' | 'ignore' | null;
  returning: Returning;
  select: readonly Item[];
}>;

/** In the order of the rows; one statement for a single row. */
export function compileInsert(table: Table, body: unknown, options: InsertOptions): CompiledWrite[] {
  return atOnce(compilingInsert(table, body, options));
}

/** The same in slices, for a large body. */
export function* compilingInsert(
  table: Table,
  body: unknown,
  options: InsertOptions,
): Slices<CompiledWrite[]> {
  refuseUnlessWritable(table, 'insert');
  const target = readTarget(table, options);
  const clause = compileReturning(table, options.select, options.returning);
  const writes: CompiledWrite[] = [];
  for (const run of yield* readRuns(table, body)) {
    refuseMissing(table, run);
    const end = target ? conflictSql(table, target, options.resolution, run.columns) : '';
    if (run.rows.length === 1 && run.columns.every(isSimple))
      writes.push(insertOne(table, run, end, clause, options.resolution !== 'merge'));
    else writes.push(yield* insertMany(table, run, end, clause));
  }
  return writes;
}

function insertOne(
  table: Table,
  run: Run,
  end: string,
  clause: ReturningClause,
  isBounded: boolean,
): CompiledWrite {
  const { columns, rows, firstIndex } = run;
  const [row = {}] = rows;
  const params = columns.map((column) => {
    return toColumnText(row[column.name], column, () => pathOf(firstIndex, column.name));
  });
  const placeholders = params.map((_, index) => `$${index + 1}`).join(', ');
  const values = columns.length > 0 ? ` (${namesOf(columns)}) values (${placeholders})` : ' default values';
  const text = `insert into ${nameOf(table)} as t0${values}${end}${clause.guarded}`;
  const insert = isBounded ? { relation: nameOf(table), rows: 1, constantBytes: 0 } : null;
  return { text, params, hidden: 1, insert, ...common(table, run, clause, columns) };
}

/** PostgreSQL reads the rows in order, so it also inserts, numbers and returns them in that order. */
function* insertMany(table: Table, run: Run, end: string, clause: ReturningClause): Slices<CompiledWrite> {
  const { columns } = run;
  const where = [guard(table), ...typeGuards(columns)].join(' and ');
  const tail = `where ${where}${end}${clause.returning}`;
  const start = `insert into ${nameOf(table)} as t0`;
  if (columns.length === 0) {
    const series = 'pg_catalog.generate_series(1, $1::pg_catalog.int4)';
    const text = `${start} select from ${series} ${tail}`;
    return {
      text,
      params: [String(run.rows.length)],
      hidden: 0,
      insert: null,
      ...common(table, run, clause, [null]),
    };
  }
  const source = `pg_catalog.json_to_recordset($1::pg_catalog.json) as r (${definitions(columns)})`;
  const list = columns.map((column) => recordValue(column, 'r.')).join(', ');
  const text = `${start} (${namesOf(columns)}) select ${list} from ${source} ${tail}`;
  return {
    text,
    params: [yield* toJsonRows(run)],
    hidden: 0,
    insert: null,
    ...common(table, run, clause, [null]),
  };
}

function common(table: Table, run: Run, clause: ReturningClause, parameters: readonly (Column | null)[]) {
  return {
    columns: clause.columns,
    tables: [table],
    isPlain: table.isPlainToWrite && clause.isPlain,
    rowKey: null,
    input: { verb: 'insert', ...run, parameters },
  } as const;
}

function namesOf(columns: readonly Column[]): string {
  return columns.map(({ name }) => id(name)).join(', ');
}

/** The key on which conflicts are merged or ignored; null: none. */
function readTarget(table: Table, { onConflict, resolution }: InsertOptions): readonly string[] | null {
  if (resolution === null) {
    if (onConflict === null) return null;
    throw refuse('on_conflict', 'requires resolution=merge or resolution=ignore');
  }
  const keys = [table.primaryKey, ...table.uniques].filter((key) => key.length > 0);
  const choices = keys.map((key) => key.join(',')).join(' or ');
  if (onConflict === null) {
    if (table.primaryKey.length > 0) return table.primaryKey;
    const advice = choices ? `; use a unique key: on_conflict=${choices}` : ' or unique key';
    throw refuse('resolution', `"${table.name}" has no primary key${advice}`);
  }
  for (const name of onConflict) getColumn({ table, alias: 't0' }, name, 'on_conflict');
  const isKey = (key: readonly string[]) =>
    key.length === onConflict.length && key.every((name) => onConflict.includes(name));
  if (keys.some(isKey)) return onConflict;
  throw refuse(
    'on_conflict',
    choices
      ? `these columns are not a primary or unique key of "${table.name}"; its keys: ${choices}`
      : `"${table.name}" has no primary or unique key`,
  );
}

function conflictSql(
  table: Table,
  target: readonly string[],
  resolution: InsertOptions['resolution'],
  columns: readonly Column[],
): string {
  const start = ` on conflict (${target.map(id).join(', ')}) do`;
  if (resolution === 'ignore') return `${start} nothing`;
  const given = columns.filter(({ name }) => !target.includes(name));
  if (given.length > 0) {
    return `${start} update set ${given.map(({ name }) => `${id(name)} = excluded.${id(name)}`).join(', ')}`;
  }
  // There is nothing to change, but PostgreSQL returns only rows that it updates.
  const unchanged = [...target, ...table.columns.keys()].find((name) => {
    const column = table.columns.get(name);
    return column?.generated === null && column.identity !== 'always';
  });
  return unchanged === undefined
    ? `${start} nothing`
    : `${start} update set ${id(unchanged)} = t0.${id(unchanged)}`;
}
