// Compiles fields and conditions to SQL. All names go through one quoting function, values are parameters, and
// operators are schema-qualified: the text depends only on the structure of the request, and no object of the project
// can be picked up by name resolution. PostgreSQL infers the type of each parameter from its column.
import { errors } from '../../errors/errors.ts';
import { sql } from '../../postgres/sql.ts';
import type { Column, Table } from '../catalog/catalog.ts';
import { nearestName } from '../catalog/nearest.ts';
import type { Condition, Operator, Test, TextSearch } from '../request/conditions.ts';
import { type Field, shorten } from '../request/scanner.ts';

export type Parameters = { readonly values: string[]; add(value: string): string };

/** A table and its alias in the statement. */
export type Scope = Readonly<{
  table: Table;
  alias: string;
  /** For each embedded table, by its name in the response: SQL that tests whether there is any row. */
  embedded?: ReadonlyMap<string, () => string>;
}>;

export type Expression = Readonly<{
  sql: string;
  column: Column;
  /** What the JSON path leads to; null: the column itself. */
  reached: 'text' | 'json' | null;
}>;

export function collectParameters(): Parameters {
  const values: string[] = [];
  return { values, add: (value) => `$${values.push(value)}` };
}

/** A cache: the same names recur, and quoting them was most of the cost of compiling a statement. */
const quoted = new Map<string, string>();

export function id(name: string): string {
  const known = quoted.get(name);
  if (known !== undefined) return known;
  const text = sql.id(name).text;
  if (quoted.size >= 10_000) quoted.clear();
  quoted.set(name, text);
  return text;
}

export const literal = (text: string): string => sql.literal(text).text.trimStart();

export function nameOf({ schema, name }: Pick<Table, 'schema' | 'name'>): string {
  return `${id(schema)}.${id(name)}`;
}

/** The planner folds it into a constant; see migrations/project/0002_tables.sql. */
export function guard({ oid, version }: Pick<Table, 'oid' | 'version'>): string {
  return `rowhouse.is_unchanged(${oid}, ${literal(version)})`;
}

export function columnSql({ alias }: Scope, name: string): string {
  return `${alias}.${id(name)}`;
}

export function operator(column: Column | null, symbol: string): string {
  return `operator(${id(column?.operators.get(symbol) ?? 'pg_catalog')}.${symbol})`;
}

export function getColumn({ table }: Scope, name: string, parameter: string): Column {
  const column = table.columns.get(name);
  if (column) return column;
  const near = nearestName(name, table.columns.keys());
  const isLong = Buffer.byteLength(name) > 63;
  const advice = near
    ? `; the nearest is "${near}"`
    : isLong
      ? '; PostgreSQL truncates names to 63 bytes when it creates a column'
      : '';
  throw errors.invalidRequest([
    {
      path: parameter.slice(0, 100),
      problem: `"${table.name}" has no column "${shorten(name)}"${advice}`,
    },
  ]);
}

/** `forComparison`: json has no comparison operators, jsonb has. */
export function compileField(
  scope: Scope,
  field: Field,
  parameter: string,
  forComparison: boolean,
): Expression {
  const column = getColumn(scope, field.name, parameter);
  const start = columnSql(scope, field.name);
  const last = field.steps.at(-1)?.arrow;
  if (!last) return { sql: start, column, reached: null };
  const { is, isArray } = column.shape;
  const isJson = !isArray && (is === 'jsonb' || (is === 'json' && !(forComparison && last === '->')));
  const steps = field.steps.map(({ arrow, key }) => {
    return ` operator(pg_catalog.${arrow}) ${typeof key === 'number' ? `(${key})` : literal(key)}`;
  });
  return {
    sql: `(${isJson ? start : `pg_catalog.to_jsonb(${start})`}${steps.join('')})`,
    column,
    reached: last === '->>' ? 'text' : 'json',
  };
}

/** Joined by `and`; an empty string if there are none. */
export function compileConditions(
  scope: Scope,
  conditions: readonly Condition[],
  parameters: Parameters,
): string {
  return conditions.map((condition) => compileCondition(scope, condition, parameters)).join(' and ');
}

function compileCondition(scope: Scope, condition: Condition, parameters: Parameters): string {
  if (condition.is === 'test') {
    const test = compileTest(scope, condition, parameters);
    return condition.isNegated ? `not (${test})` : test;
  }
  const parts = condition.conditions.map((part) => compileCondition(scope, part, parameters));
  return `${condition.isNegated ? 'not ' : ''}(${parts.join(` ${condition.is} `)})`;
}

export const symbols: Record<Exclude<Operator, 'isdistinct'>, string> = {
  eq: '=',
  neq: '<>',
  gt: '>',
  gte: '>=',
  lt: '<',
  lte: '<=',
  like: '~~',
  ilike: '~~*',
  match: '~',
  imatch: '~*',
  cs: '@>',
  cd: '<@',
  ov: '&&',
  sl: '<<',
  sr: '>>',
  nxr: '&<',
  nxl: '&>',
  adj: '-|-',
};

function compileTest(scope: Scope, test: Test, parameters: Parameters): string {
  const embedded = testOfEmbedded(scope, test);
  if (embedded) return embedded;
  const { sql: left, column, reached } = compileField(scope, test.field, test.parameter, true);
  const by = (symbol: string) => operator(reached ? null : column, symbol);
  switch (test.operator) {
    case 'is':
      return `${left} is ${test.value === 'not_null' ? 'not null' : test.value}`;
    case 'in':
      return `${left} ${by('=')} any (${parameters.add(toArray(test.values))})`;
    case 'isdistinct':
      return `(${left} is null or ${left} ${by('<>')} ${parameters.add(test.value)})`;
    case 'fts':
    case 'plfts':
    case 'phfts':
    case 'wfts':
      return compileSearch(left, column, reached, test, parameters);
    default: {
      const symbol = by(symbols[test.operator]);
      if (!('each' in test)) return `${left} ${symbol} ${parameters.add(test.value)}`;
      return `${left} ${symbol} ${test.each} (${parameters.add(toArray(test.values))})`;
    }
  }
}

/** `author=is.null`: rows without an author. */
function testOfEmbedded({ table, embedded }: Scope, test: Test): string | null {
  const { name, steps } = test.field;
  const exists = steps.length === 0 && !table.columns.has(name) ? embedded?.get(name) : undefined;
  if (!exists) return null;
  if (test.operator === 'is' && (test.value === 'null' || test.value === 'not_null')) {
    return test.value === 'null' ? `not ${exists()}` : exists();
  }
  throw errors.invalidRequest([
    {
      path: test.parameter.slice(0, 100),
      problem: `"${shorten(name)}" is embedded and supports is.null only`,
    },
  ]);
}

const queries: Record<TextSearch, string> = {
  fts: 'to_tsquery',
  plfts: 'plainto_tsquery',
  phfts: 'phraseto_tsquery',
  wfts: 'websearch_to_tsquery',
};

/** The configuration is a constant: otherwise PostgreSQL could not match an index on to_tsvector(…). */
function compileSearch(
  left: string,
  { shape }: Column,
  reached: Expression['reached'],
  test: Extract<Test, { operator: TextSearch }>,
  parameters: Parameters,
): string {
  const config = test.config === null ? '' : `${literal(test.config)}::pg_catalog.regconfig, `;
  const isVector = reached === null && shape.is === 'tsvector' && !shape.isArray;
  const vector = isVector ? left : `pg_catalog.to_tsvector(${config}${left})`;
  const query = `pg_catalog.${queries[test.operator]}(${config}${parameters.add(test.value)})`;
  return `${vector} operator(pg_catalog.@@) ${query}`;
}

export function toArray(values: readonly (string | null)[]): string {
  const elements = values.map((value) => (value === null ? 'NULL' : `"${value.replace(/["\\]/g, '\\$&')}"`));
  return `{${elements.join(',')}}`;
}

/** The name of a field in the response, unless the request renames it: the last key of its path. */
export function defaultName({ name, steps }: Field): string {
  const key = steps.findLast((step) => typeof step.key === 'string')?.key;
  return key === undefined ? name : String(key);
}
