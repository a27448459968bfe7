// What all writing statements share: the check that the table is writable, the RETURNING clause, and the input with
// which errors are explained.
import { errors } from '../../errors/errors.ts';
import type { JsonParameter } from '../../query/json/parameters.ts';
import type { BoundedInsert } from '../../query/statement/bounded-insert.ts';
import type { RowKey } from '../../query/statement/row-key.ts';
import type { Column, Table, TypeShape } from '../catalog/catalog.ts';
import { allColumns, type Item } from '../request/select.ts';
import { guard, id, literal, type Scope } from '../sql/expressions.ts';
import { as, outputsOf, refuseRepeats } from '../sql/outputs.ts';
import type { Row } from './body.ts';
import { isJsonText, refuse } from './values.ts';

export type CompiledWrite = Readonly<{
  text: string;
  /** null is SQL's NULL. */
  params: readonly (string | JsonParameter | null)[];
  /** Names of the result's columns; `hidden` further ones follow that are not shown. */
  columns: readonly string[];
  hidden: number;
  /** All tables that the text was compiled for. */
  tables: readonly Table[];
  /** Running the statement leaves no state in a session, except for sequences. */
  isPlain: boolean;
  /** An insert of rows whose size is known before it runs. */
  insert: BoundedInsert | null;
  /** An update or delete by the primary key. */
  rowKey: RowKey | null;
  input: WriteInput;
}>;

/** The input of a write, with which errors are explained. */
export type WriteInput = Readonly<{
  verb: Verb;
  rows: readonly Row[];
  columns: readonly Column[];
  /** The first row's index in the body; null: the body is a single row. */
  firstIndex: number | null;
  /** The column of each parameter; null: several columns, or a filter. */
  parameters: readonly (Column | null)[];
}>;

export type Verb = 'insert' | 'update' | 'delete';

/** minimal: no row is returned. */
export type Returning = 'row' | 'minimal';

export type ReturningClause = Readonly<{
  /** The RETURNING clause with the guard as its last column, and without it; the latter can be empty. */
  guarded: string;
  returning: string;
  columns: readonly string[];
  isPlain: boolean;
}>;

/**
 * A cache: nearly all requests return all columns or none, and listing them was half of the cost of compiling a row.
 */
const cached = { row: new WeakMap<Table, ReturningClause>(), minimal: new WeakMap<Table, ReturningClause>() };

/** For a table with the alias t0. */
export function compileReturning(
  table: Table,
  select: readonly Item[],
  returning: Returning,
): ReturningClause {
  const items = returning === 'minimal' ? [] : select;
  if (returning === 'row' && select !== allColumns) return buildReturning(table, items);
  const known = cached[returning].get(table);
  if (known) return known;
  const clause = buildReturning(table, items);
  cached[returning].set(table, clause);
  return clause;
}

function buildReturning(table: Table, select: readonly Item[]): ReturningClause {
  const scope: Scope = { table, alias: 't0' };
  const outputs = select.flatMap((item) => {
    if (item.is === 'embed') throw refuse('select', 'must not embed other tables when rows are changed');
    return outputsOf(scope, item);
  });
  const columns = outputs.map(({ name }) => name);
  refuseRepeats(columns);
  const list = outputs.map(({ sql, name }) => as(sql, name));
  return {
    guarded: ` returning ${[...list, guard(table)].join(', ')}`,
    returning: list.length > 0 ? ` returning ${list.join(', ')}` : '',
    columns,
    isPlain: outputs.every(({ isPlain }) => isPlain),
  };
}

/**
 * The column definition list for json_to_recordset. json_populate_recordset with a null of the table's type would be
 * shorter, but then PostgreSQL refuses rows that leave out a column whose domain is not null.
 */
export function definitions(columns: readonly Column[]): string {
  return columns
    .map((column) => `${id(column.name)} ${isJsonText(column) ? 'pg_catalog.text' : column.type}`)
    .join(', ');
}

/** The expression for a column of such a record. */
export function recordValue(column: Column, prefix: string): string {
  return `${prefix}${id(column.name)}${isJsonText(column) ? `::${column.type}` : ''}`;
}

/** A composite type can change without a new version of the table, and the attributes of the type were checked. */
export function typeGuards(columns: readonly Column[]): string[] {
  const relations = new Map(columns.flatMap(({ shape }) => relationsOf(shape)));
  return [...relations].map(([oid, version]) => `rowhouse.is_unchanged_now(${oid}, ${literal(version)})`);
}

function relationsOf({ relation, fields }: TypeShape): [number, string][] {
  if (!relation) return [];
  return [[relation.oid, relation.version], ...fields.flatMap(({ shape }) => relationsOf(shape))];
}

export function refuseUnlessWritable(table: Table, verb: Verb): void {
  if (table.can[verb]) return;
  const { insert, update, delete: remove } = table.can;
  const allowed = ['GET', insert && 'POST', update && 'PATCH', remove && 'DELETE'].filter(
    (word) => word !== false,
  );
  if (table.kind === 'materialized_view') {
    throw errors.tableNotWritable(
      `"${table.name}" is a materialized view, which cannot be changed directly.`,
      'Change its underlying tables, then run REFRESH MATERIALIZED VIEW.',
      allowed,
    );
  }
  if (table.kind === 'view') {
    throw errors.tableNotWritable(
      `PostgreSQL cannot ${verb} through the view "${table.name}".`,
      'Change the underlying table, or create an INSTEAD OF trigger on the view.',
      allowed,
    );
  }
  throw errors.tableNotWritable(
    `The foreign table "${table.name}" does not support ${verb}.`,
    'Change the rows in the source of the foreign table.',
    allowed,
  );
}
