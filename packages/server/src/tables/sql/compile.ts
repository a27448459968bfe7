// Compiles a request and its tables to one statement. The text depends only on the structure of the request, so that
// PostgreSQL can keep it prepared; values are parameters. LIMIT is part of the text: as a parameter it would make
// PostgreSQL plan the statement again each time.
import type { Table } from '../catalog/catalog.ts';
import type { Condition } from '../request/conditions.ts';
import type { PageRequest } from '../request/request.ts';
import { type Cursor, readCursor, refuse, writeCursor } from './cursor.ts';
import type { Relations } from './embeds.ts';
import { compileConditions, type Parameters, type Scope } from './expressions.ts';
import { after, ctidWindow, keyOf, type Sorting, type SortKey, sortingOf } from './keyset.ts';
import { compileRows, embeddedOf, guardsOf, type Statement, skipRows, startStatement } from './rows.ts';

export type CompiledPage = Readonly<{
  text: string;
  params: readonly string[];
  /** The statement may return one row more than this, which shows that there are more. */
  limit: number;
  /** Names of the result's columns; `hidden` further ones follow that are not shown. */
  columns: readonly string[];
  hidden: number;
  /** Indexes of the columns that hold the cursor's values; null: the order does not identify rows uniquely. */
  cursor: Readonly<{ table: string; order: readonly string[]; columns: readonly number[] }> | null;
  /** All tables that the text was compiled for. */
  tables: readonly Table[];
  /** Running the statement leaves no state in a session. */
  isPlain: boolean;
}>;

export type CompiledCount = Pick<CompiledPage, 'text' | 'params' | 'tables' | 'isPlain'>;

const none: Relations = new Map();

export function compilePage(request: PageRequest, table: Table, relations: Relations = none): CompiledPage {
  const statement = startStatement(table, relations, request.numbersAsStrings);
  const scope = mainScope(statement, table, request);
  const sorting = sortingOf(scope, request.order, 'order');
  const offset = (request.page - 1) * request.limit;
  const cursor = request.cursor === null ? null : continueFrom(request.cursor, table, sorting);
  const arms = cursor ? after(sorting.keys, cursor, statement.parameters) : [];
  const near = sorting.isByCtid
    ? ctidWindow(scope, cursor, offset + request.limit + 1, statement.parameters)
    : null;
  const source =
    offset > 0 && sorting.isByKey && isOnKeyOnly(keyOf(table), request)
      ? skipRows(statement, scope, request.where, sorting, request.limit + 1, offset)
      : null;
  const rows = compileRows(statement, {
    scope,
    items: request.select,
    conditions: source ? [] : conditionsOf(statement, scope, request.where, request.select),
    arms,
    keys: sorting.keys,
    cursorKeys: sorting.isTotal ? sorting.keys : [],
    limit: request.limit + 1,
    offset: source ? 0 : offset,
    isJson: false,
    ...(source && { source }),
    ...(near && { near }),
    ...(request.maxValueChars !== null && { maxValueChars: request.maxValueChars }),
    isMain: true,
  });
  return {
    text: rows.text,
    params: statement.parameters.values,
    limit: request.limit,
    columns: rows.outputs.map(({ name }) => name),
    hidden: rows.hidden,
    cursor: sorting.isTotal
      ? { table: fullName(table), order: textsOf(sorting.keys), columns: rows.cursorColumns }
      : null,
    tables: [...statement.tables.values()],
    isPlain: isPlain(statement, rows.text),
  };
}

/** `values`: the values of the cursor's columns in the last row of the page, as PostgreSQL wrote them. */
export function nextCursor({ cursor }: CompiledPage, values: readonly (string | null)[]): string | null {
  return cursor && writeCursor({ table: cursor.table, order: cursor.order, values });
}

/** `exact` returns the count; `estimated` returns the JSON of EXPLAIN, see readEstimate. */
export function compileCount(
  request: Pick<PageRequest, 'select' | 'where' | 'count'>,
  table: Table,
  relations: Relations = none,
): CompiledCount {
  const statement = startStatement(table, relations, false);
  const scope = mainScope(statement, table, request);
  const conditions = conditionsOf(statement, scope, request.where, request.select);
  const where = [...guardsOf(statement), ...conditions].join(' and ');
  const isExact = request.count === 'exact';
  const what = isExact ? 'select pg_catalog.count(*)' : 'explain (format json) select';
  const text = `${what} from ${statement.from(scope)} where ${where}`;
  return {
    text,
    params: statement.parameters.values,
    tables: [...statement.tables.values()],
    isPlain: isPlain(statement, text),
  };
}

/** The planner's estimate, from the table's size and the statistics of ANALYZE. */
export function readEstimate(explained: string): number {
  const [{ Plan: plan }] = JSON.parse(explained) as [{ Plan: { 'Plan Rows': number } }];
  return plan['Plan Rows'];
}

/**
 * The WHERE condition, with the guard, for UPDATE and DELETE of `table as t0`. `parameters` may already hold values.
 */
export function compileFilter(table: Table, where: readonly Condition[], parameters: Parameters): string {
  const statement = startStatement(table, none, false, parameters);
  const scope: Scope = { table, alias: 't0' };
  return [...guardsOf(statement), compileConditions(scope, where, parameters)].filter(Boolean).join(' and ');
}

function mainScope(statement: Statement, table: Table, { select }: Pick<PageRequest, 'select'>): Scope {
  const scope: Scope = { table, alias: statement.alias() };
  return { ...scope, embedded: embeddedOf(statement, scope, select) };
}

function conditionsOf(
  statement: Statement,
  scope: Scope,
  where: readonly Condition[],
  select: PageRequest['select'],
): string[] {
  const given = compileConditions(scope, where, statement.parameters);
  const inner = statement.innerJoins(scope, select);
  return [...(given === '' ? [] : [given]), ...inner];
}

function continueFrom(text: string, table: Table, { keys, isTotal }: Sorting): Cursor {
  const cursor = readCursor(text);
  if (cursor.table !== fullName(table)) throw refuse('belongs to another table');
  if (!isTotal) throw refuse('cannot be used with a view, whose rows have no key; use page');
  const order = textsOf(keys);
  if (cursor.order.length !== order.length || order.some((key, index) => key !== cursor.order[index])) {
    throw refuse('belongs to another order; send the same "order" as for the first page');
  }
  return cursor;
}

function textsOf(keys: readonly SortKey[]): string[] {
  return keys.map(({ text }) => text);
}

function fullName({ schema, name }: Table): string {
  return `${schema}.${name}`;
}

/** Whether all conditions are on the key, so that an index-only scan can evaluate them. */
function isOnKeyOnly(key: readonly string[], { where, select }: PageRequest): boolean {
  const isKey = (condition: Condition): boolean =>
    condition.is === 'test'
      ? condition.field.steps.length === 0 && key.includes(condition.field.name)
      : condition.conditions.every(isKey);
  return where.every(isKey) && !select.some((item) => item.is === 'embed' && item.isInner);
}

function isPlain({ tables, isPlainSoFar }: Statement, text: string): boolean {
  if (!isPlainSoFar() || otherOperator.test(text)) return false;
  return [...tables.values()].every(({ isPlainToRead }) => isPlainToRead);
}

/** An operator that is not built in: its owner can replace its function at any time. */
const otherOperator = /operator\((?!"?pg_catalog"?\.)/;
