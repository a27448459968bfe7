// Compiles updates and deletes of the rows that a filter selects to one statement. A request without a filter is
// refused: a missing filter is a mistake and does not mean all rows.
import { atOnce, type Slices } from '../../lib/fair-reads.ts';
import { isLarge, markLarge } from '../../query/json/large-json.ts';
import { JsonParameter } from '../../query/json/parameters.ts';
import type { RowKey } from '../../query/statement/row-key.ts';
import type { Column, Table } from '../catalog/catalog.ts';
import type { Condition } from '../request/conditions.ts';
import type { ChangeRequest } from '../request/request.ts';
import { compileFilter } from '../sql/compile.ts';
import { collectParameters, id, nameOf } from '../sql/expressions.ts';
import { type Row, readChanges } from './body.ts';
import {
  type CompiledWrite,
  compileReturning,
  definitions,
  type Returning,
  refuseUnlessWritable,
  typeGuards,
} from './statement.ts';
import { isSimple, refuse, toColumnJson, toColumnText, toJson, toLargeColumnJson } from './values.ts';

export function compileUpdate(
  table: Table,
  body: unknown,
  request: ChangeRequest,
  returning: Returning,
): CompiledWrite {
  return atOnce(compilingUpdate(table, body, request, returning));
}

/** The same in slices, for a large body. */
export function* compilingUpdate(
  table: Table,
  body: unknown,
  request: ChangeRequest,
  returning: Returning,
): Slices<CompiledWrite> {
  refuseUnlessWritable(table, 'update');
  refuseAll(table, request.where);
  const clause = compileReturning(table, request.select, returning);
  const { columns, rows, firstIndex } = readChanges(table, body);
  const filter = collectParameters();
  const where = [compileFilter(table, request.where, filter), ...typeGuards(columns)].join(' and ');
  const { sets, params, parameters } = yield* compileSets(columns, rows[0] ?? {}, filter.values.length);
  return {
    text: `update ${nameOf(table)} as t0 set ${sets} where ${where}${clause.returning}`,
    params: [...filter.values, ...params],
    columns: clause.columns,
    hidden: 0,
    tables: [table],
    isPlain: table.isPlainToWrite && clause.isPlain,
    insert: null,
    rowKey: rowKeyOf(table, request.where),
    input: {
      verb: 'update',
      rows,
      columns,
      firstIndex,
      parameters: [...filter.values.map(() => null), ...parameters],
    },
  };
}

export function compileDelete(table: Table, request: ChangeRequest, returning: Returning): CompiledWrite {
  refuseUnlessWritable(table, 'delete');
  refuseAll(table, request.where);
  const clause = compileReturning(table, request.select, returning);
  const filter = collectParameters();
  const where = compileFilter(table, request.where, filter);
  return {
    text: `delete from ${nameOf(table)} as t0 where ${where}${clause.returning}`,
    params: filter.values,
    columns: clause.columns,
    hidden: 0,
    tables: [table],
    isPlain: table.isPlainToWrite && clause.isPlain,
    insert: null,
    rowKey: rowKeyOf(table, request.where),
    input: {
      verb: 'delete',
      rows: [],
      columns: [],
      firstIndex: null,
      parameters: filter.values.map(() => null),
    },
  };
}

/** The parameters that hold the primary key; null: the filter does not fix all of it. A filter's parameters come first. */
function rowKeyOf({ name, primaryKey }: Table, where: readonly Condition[]): RowKey | null {
  const found = new Map<string, number>();
  let next = 0;
  for (const condition of where) {
    // How many parameters a group has is not counted here.
    if (condition.is !== 'test') break;
    if (condition.operator === 'is') continue;
    const { field, isNegated } = condition;
    const isEqual = condition.operator === 'eq' && !('each' in condition) && !isNegated;
    if (isEqual && field.steps.length === 0) found.set(field.name, next);
    next++;
  }
  const parameters = primaryKey.flatMap((column) => found.get(column) ?? []);
  const isWhole = primaryKey.length > 0 && parameters.length === primaryKey.length;
  return isWhole ? { table: name, parameters } : null;
}

/** The first `taken` parameters are already in use. */
function* compileSets(columns: readonly Column[], row: Row, taken: number) {
  const params: CompiledWrite['params'][number][] = [];
  const add = (value: CompiledWrite['params'][number]) => `$${taken + params.push(value)}`;
  const simple = columns.filter(isSimple);
  const sets = simple.map((column) => {
    return `${id(column.name)} = ${add(toColumnText(row[column.name], column, column.name))}`;
  });
  const others = columns.filter((column) => !isSimple(column));
  if (others.length > 0) {
    const entries: [string, unknown][] = [];
    for (const column of others) entries.push([column.name, yield* toColumnJsonOf(row, column)]);
    const given = Object.fromEntries(entries);
    const isLong = others.some(({ name }) => isLarge(row[name]));
    const json = isLong ? new JsonParameter(markLarge(given)) : toJson(given, '');
    const names = others.map(({ name }) => id(name)).join(', ');
    const source = `pg_catalog.json_to_record(${add(json)}::pg_catalog.json)`;
    sets.push(`(${names}) = (select ${names} from ${source} as r (${definitions(others)}))`);
  }
  const parameters: (Column | null)[] = others.length > 0 ? [...simple, null] : simple;
  return { sets: sets.join(', '), params, parameters };
}

function* toColumnJsonOf(row: Row, column: Column): Slices<unknown> {
  const value = row[column.name];
  if (isLarge(value)) return yield* toLargeColumnJson(value, column, column.name);
  return toColumnJson(value, column, column.name);
}

function refuseAll(table: Table, where: readonly Condition[]): void {
  if (where.length > 0) return;
  throw refuse(
    '',
    'a filter is required, such as ?id=eq.5',
    `To change all rows, send a filter that matches all of them: ?${filterOfAll(table)}`,
  );
}

function filterOfAll({ primaryKey, columns }: Table): string {
  const always = primaryKey[0] ?? [...columns.values()].find(({ notNull }) => notNull)?.name;
  if (always !== undefined) return `${spell(always)}=not.is.null`;
  const name = spell([...columns.keys()][0] ?? 'id');
  return `or=(${name}.is.null,${name}.not.is.null)`;
}

/** The column's name as a filter must spell it. */
function spell(name: string): string {
  return /^[a-z_][a-z0-9_]*$/i.test(name) && !reserved.has(name)
    ? name
    : encodeURIComponent(`"${name.replace(/["\\]/g, '\\$&')}"`);
}
const reserved = new Set(['and', 'or', 'not', 'select', 'numbers', 'returning', 'max_affected']);
