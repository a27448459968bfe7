// Keyset pagination: a total order of rows, and conditions that continue after a given row. It compares values and
// never counts rows, so a page costs the same at any depth.
import type { Column, Table } from '../catalog/catalog.ts';
import type { Order } from '../request/order.ts';
import { spell } from '../request/scanner.ts';
import { type Cursor, refuse } from './cursor.ts';
import { columnSql, compileField, operator, type Parameters, type Scope } from './expressions.ts';

export type SortKey = Readonly<{
  sql: string;
  /** The key's name in a cursor. */
  text: string;
  /** null: a value inside JSON, or ctid/tableoid. */
  column: Column | null;
  isDescending: boolean;
  nullsFirst: boolean;
  notNull: boolean;
}>;

export type Sorting = Readonly<{
  keys: readonly SortKey[];
  /** Whether no two rows are equal in this order, so that a cursor can continue after a row. */
  isTotal: boolean;
  /** Whether it consists only of the columns of a key, in the key's order. */
  isByKey: boolean;
  /** Whether it is ctid alone. */
  isByCtid: boolean;
}>;

/** The requested order, then the primary key, else a unique key without nulls, else ctid. Views have no such key. */
export function sortingOf(scope: Scope, order: readonly Order[], parameter: string): Sorting {
  const requested = order.map((one): SortKey => {
    const { sql, column, reached } = compileField(scope, one.field, parameter, true);
    return sortKey(sql, spell(one.field), reached ? null : column, one, reached === null && column.notNull);
  });
  const names = new Set(order.filter(({ field }) => field.steps.length === 0).map(({ field }) => field.name));
  const key = keyOf(scope.table);
  const direction = { isDescending: order.at(-1)?.isDescending ?? false };
  const rest = key
    .filter((name) => !names.has(name))
    .map((name) => {
      const column = scope.table.columns.get(name) ?? null;
      return sortKey(
        columnSql(scope, name),
        name,
        column,
        { ...direction, nullsFirst: direction.isDescending },
        true,
      );
    });
  const locations = locationColumns(scope.table, key.length > 0).map((name) =>
    sortKey(`${scope.alias}.${name}`, name, null, { ...direction, nullsFirst: direction.isDescending }, true),
  );
  return {
    keys: [...requested, ...rest, ...locations],
    isTotal: key.length > 0 || locations.length > 0,
    isByKey: requested.length === 0 && key.length > 0 && locations.length === 0,
    isByCtid: requested.length === 0 && key.length === 0 && locations.length === 1,
  };
}

function sortKey(
  sql: string,
  name: string,
  column: Column | null,
  { isDescending, nullsFirst }: Pick<Order, 'isDescending' | 'nullsFirst'>,
  notNull: boolean,
): SortKey {
  // Without nulls their position does not matter, and an index fits either way.
  const first = notNull ? isDescending : nullsFirst;
  const text = `${name}.${isDescending ? 'desc' : 'asc'}${first === isDescending ? '' : first ? '.nullsfirst' : '.nullslast'}`;
  return { sql, text, column, isDescending, nullsFirst: first, notNull };
}

/** The columns that identify rows uniquely; empty if there is no such key. */
export function keyOf({ primaryKey, uniques, columns }: Table): readonly string[] {
  if (primaryKey.length > 0) return primaryKey;
  return uniques.find((names) => names.every((name) => columns.get(name)?.notNull)) ?? [];
}

/** A parent's key does not cover the rows of its children; a partitioned table's key does. */
function locationColumns({ kind, hasChildren }: Table, hasKey: boolean): string[] {
  if (kind === 'view' || kind === 'foreign') return [];
  if (hasKey && (kind === 'partitioned' || !hasChildren)) return [];
  return hasChildren ? ['tableoid', 'ctid'] : ['ctid'];
}

/** `as`: other SQL for the keys, where they come from a subselect. */
export function orderBy(keys: readonly SortKey[], as?: readonly string[]): string {
  if (keys.length === 0) return '';
  const list = keys.map(({ sql, isDescending, nullsFirst }, index) => {
    const nulls = nullsFirst === isDescending ? '' : nullsFirst ? ' nulls first' : ' nulls last';
    return `${as?.[index] ?? sql}${isDescending ? ' desc' : ''}${nulls}`;
  });
  return ` order by ${list.join(', ')}`;
}

/**
 * PostgreSQL cannot read in the order of ctid and would sort the whole table. This condition limits the scan to as many
 * blocks after the last row as the page needs rows: one row per block is enough to fill it.
 */
export function ctidWindow(
  { alias }: Scope,
  cursor: Cursor | null,
  rows: number,
  parameters: Parameters,
): string {
  const block = cursor ? /^\((\d{1,10}),\d{1,5}\)$/.exec(cursor.values[0] ?? '')?.[1] : '0';
  if (block === undefined) throw refuse('does not contain a position');
  const end = Math.min(Number(block) + rows, 2 ** 32 - 2);
  // In a subselect for the same reason as OFFSET: one plan for every position.
  return `${alias}.ctid operator(pg_catalog.<) (select ${parameters.add(`(${end},0)`)}::pg_catalog.tid)`;
}

/**
 * Conditions for the rows after the cursor's row. There are two if nulls come last, or if they come first and more may
 * follow: all rows of the first sort before those of the second, and each is an index range, which their union is not.
 */
export function after(
  keys: readonly SortKey[],
  cursor: Cursor,
  parameters: Parameters,
): readonly [string] | readonly [string, string] {
  cursor.values.forEach((value, index) => {
    if (value === null && keys[index]?.notNull) throw refuse('contains null for a column that is never null');
  });
  const values = cursor.values.map((value) => (value === null ? null : parameters.add(value)));
  const [first] = keys;
  if (!first) throw refuse('cannot be used: the rows have no order');
  const value = values[0] ?? null;
  if (value === null) {
    const rest = keys.length > 1 ? `(${compare(keys, values, 1)})` : 'false';
    const inNulls = `${first.sql} is null and ${rest}`;
    return first.nullsFirst ? [inNulls, `${first.sql} is not null`] : [inNulls];
  }
  const here = bounded(keys, values, value);
  return first.notNull || first.nullsFirst ? [here] : [here, `${first.sql} is null`];
}

/** For rows whose first value is not null. The outermost comparison is one that an index scan can start from. */
function bounded(keys: readonly SortKey[], values: readonly (string | null)[], value: string): string {
  const [first] = keys as [SortKey];
  const isRow = keys.every(
    (key, index) =>
      key.isDescending === first.isDescending &&
      values[index] !== null &&
      (key.notNull || index === 0) &&
      (key.column?.operators.size ?? 0) === 0,
  );
  const symbol = first.isDescending ? '<' : '>';
  if (keys.length === 1) return `${first.sql} ${operator(first.column, symbol)} ${value}`;
  if (isRow) {
    const left = keys.map(({ sql }) => sql).join(', ');
    return `row(${left}) operator(pg_catalog.${symbol}) row(${values.join(', ')})`;
  }
  const bound = `${first.sql} ${operator(first.column, `${symbol}=`)} ${value}`;
  const beyond = `${first.sql} ${operator(first.column, symbol)} ${value}`;
  return `${bound} and (${beyond} or ${compare(keys, values, 1)})`;
}

/** Compares from key `at` on, given that the keys before it are equal. */
function compare(keys: readonly SortKey[], values: readonly (string | null)[], at: number): string {
  const key = keys[at] as SortKey;
  const value = values[at] ?? null;
  const isLast = at === keys.length - 1;
  const { sql, column } = key;
  const beyond: string[] = [];
  if (value === null) {
    if (key.nullsFirst) beyond.push(`${sql} is not null`);
    if (!isLast) beyond.push(`${sql} is null and (${compare(keys, values, at + 1)})`);
  } else {
    beyond.push(`${sql} ${operator(column, key.isDescending ? '<' : '>')} ${value}`);
    if (!key.notNull && !key.nullsFirst) beyond.push(`${sql} is null`);
    if (!isLast)
      beyond.push(`${sql} ${operator(column, '=')} ${value} and (${compare(keys, values, at + 1)})`);
  }
  return beyond.length === 0 ? 'false' : beyond.join(' or ');
}
