// Compiles the rows of a table and the rows embedded in them. Embedded rows are joined after the page was cut, not
// before: however large the table is, they are looked up only for the rows of the page.
import { errors } from '../../errors/errors.ts';
import { plainShape, type Table, type TypeShape } from '../catalog/catalog.ts';
import type { Condition } from '../request/conditions.ts';
import type { Embed, Item } from '../request/select.ts';
import { canCut, cutSql } from './cut-values.ts';
import type { Related, Relations } from './embeds.ts';
import {
  collectParameters,
  columnSql,
  compileConditions,
  guard,
  id,
  literal,
  nameOf,
  operator,
  type Parameters,
  type Scope,
} from './expressions.ts';
import { expandedTypes, jsonValue } from './json-values.ts';
import { keyOf, orderBy, type Sorting, type SortKey, sortingOf } from './keyset.ts';
import { as, type Output, outputsOf, refuseRepeats } from './outputs.ts';

/** The state that grows while a statement is compiled. */
export type Statement = Readonly<{
  parameters: Parameters;
  relations: Relations;
  numbersAsStrings: boolean;
  /** By oid. Each of them gets a guard. */
  tables: Map<number, Table>;
  types: Map<number, NonNullable<TypeShape['relation']>>;
  alias(): string;
  from(scope: Scope): string;
  innerJoins(scope: Scope, items: readonly Item[]): string[];
  isPlainSoFar(): boolean;
  notPlain(): void;
}>;

export function startStatement(
  table: Table,
  relations: Relations,
  numbersAsStrings: boolean,
  parameters = collectParameters(),
): Statement {
  let aliases = 0;
  let plain = true;
  const statement: Statement = {
    parameters,
    relations,
    numbersAsStrings,
    tables: new Map([[table.oid, table]]),
    types: new Map(),
    alias: () => `t${aliases++}`,
    from: ({ table: one, alias }) => `${nameOf(one)} as ${alias}`,
    innerJoins: (scope, items) =>
      items
        .filter((item) => item.is === 'embed' && item.isInner)
        .map((embed) => exists(statement, scope, embed as Embed)),
    isPlainSoFar: () => plain,
    notPlain: () => {
      plain = false;
    },
  };
  return statement;
}

export function guardsOf({ tables, types }: Statement): string[] {
  return [
    ...[...tables.values()].map(guard),
    ...[...types.values()].map(
      ({ oid, version }) => `rowhouse.is_unchanged_now(${oid}, ${literal(version)})`,
    ),
  ];
}

/** Tests for conditions on embedded tables, by their names in the response. */
export function embeddedOf(
  statement: Statement,
  scope: Scope,
  items: readonly Item[],
): ReadonlyMap<string, () => string> {
  const embeds = items.filter((item) => item.is === 'embed');
  return new Map(embeds.map((embed) => [embed.alias ?? embed.name, () => exists(statement, scope, embed)]));
}

export type RowsPlan = Readonly<{
  scope: Scope;
  items: readonly Item[];
  conditions: readonly string[];
  /** Alternative conditions after a cursor; all rows of one sort before those of the next. Empty on the first page. */
  arms: readonly string[];
  keys: readonly SortKey[];
  /** Keys whose values must be among the columns. */
  cursorKeys: readonly SortKey[];
  limit: number | null;
  offset: number;
  /** Whether PostgreSQL converts the values to JSON. */
  isJson: boolean;
  /** What to read from, instead of the table itself. */
  source?: () => string;
  /** A condition that the page's rows most likely meet, and that all rows before them meet. */
  near?: string;
  /** Longer values are cut, except those of `keys`: a view has an order, though no cursor. */
  maxValueChars?: number;
  /** The main query contains the guards. */
  isMain: boolean;
}>;

export type Rows = Readonly<{
  text: string;
  outputs: readonly Output[];
  hidden: number;
  cursorColumns: readonly number[];
}>;

export function compileRows(statement: Statement, plan: RowsPlan): Rows {
  const { scope, items, arms, keys, isJson } = plan;
  const isNested =
    arms.length > 1 ||
    plan.near !== undefined ||
    items.some((item) => item.is === 'embed' && item.items.length > 0);
  const page = statement.alias();
  const inner = new Map<string, string>();
  /** Rewrites SQL over the table's columns for use outside of the page's subselect. */
  const outside = (sql: string): string => {
    if (!isNested) return sql;
    const name = inner.get(sql) ?? `c${inner.size}`;
    inner.set(sql, name);
    return `${page}.${name}`;
  };
  const joins: string[] = [];
  const bare = new Map<string, number>();
  const outputs = items.flatMap((item): Output[] => {
    if (item.is !== 'embed') return outputsOf(scope, item);
    const lateral = compileLateral(statement, scope, item, isJson, (name) => outside(columnSql(scope, name)));
    if (lateral.join !== '') joins.push(lateral.join);
    return lateral.outputs;
  });
  refuseRepeats(outputs.map(({ name }) => name));
  const isKey = ({ sql }: Output) => keys.some((key) => key.sql === sql);
  const { maxValueChars } = plan;
  const cut = (output: Output, value: string) =>
    maxValueChars !== undefined && canCut(output) && !isKey(output)
      ? cutSql(output, value, maxValueChars)
      : value;
  const isJoined = (output: Output) => output.origin === 'joined';
  const list = outputs.map((output, index) => {
    if (!output.isPlain) statement.notPlain();
    if (output.isBare) bare.set(output.sql, index);
    const value = isJoined(output) ? output.sql : outside(output.sql);
    if (!isJson) return as(cut(output, value), output.name);
    for (const type of expandedTypes(output.shape, statement.numbersAsStrings))
      statement.types.set(type.oid, type);
    return as(jsonValue(value, output.shape, statement.numbersAsStrings), output.name);
  });
  const cursorColumns: number[] = [];
  for (const { sql } of plan.cursorKeys) {
    const shown = bare.get(sql);
    cursorColumns.push(shown ?? list.push(`(${outside(sql)})::pg_catalog.text`) - 1);
  }
  const sorted = keys.map(({ sql }) => outside(sql));
  const text = isNested
    ? `select ${list.join(', ')} from (${pageSource(statement, plan, inner)}) as ${page}${joins.join('')}` +
      orderBy(keys, sorted) +
      (arms.length > 1 ? ` limit ${plan.limit}` : '')
    : body(statement, plan, list, arms[0]);
  return { text, outputs, hidden: list.length - outputs.length, cursorColumns };
}

/** The subselect of the page. Two arms are two index ranges, one after the other. */
function pageSource(statement: Statement, plan: RowsPlan, inner: ReadonlyMap<string, string>): string {
  const list = [...inner].map(([sql, name]) => `${sql} as ${name}`);
  const { arms, near } = plan;
  if (near !== undefined) return nearestFirst(statement, plan, list, [...inner.values()], near);
  if (arms.length < 2) return body(statement, plan, list, arms[0]);
  return arms.map((arm, index) => `(${body(statement, plan, list, arm, index === 0)})`).join(' union all ');
}

/** If the nearest rows fill the page, they are the page, and the table is not scanned a second time. */
function nearestFirst(
  statement: Statement,
  plan: RowsPlan,
  list: readonly string[],
  names: readonly string[],
  near: string,
): string {
  const arm = plan.arms[0];
  const nearest = body(statement, plan, list, arm === undefined ? near : `${near} and ${arm}`);
  const isFull = `(select pg_catalog.count(*) from nearest) operator(pg_catalog.=) ${plan.limit}`;
  const all = body(
    statement,
    plan,
    list,
    arm === undefined ? `not ${isFull}` : `${arm} and not ${isFull}`,
    false,
  );
  return `with nearest as materialized (${nearest}) select ${names.join(', ')} from nearest where ${isFull} union all (${all})`;
}

function body(
  statement: Statement,
  plan: RowsPlan,
  list: readonly string[],
  arm: string | undefined,
  isFirst = true,
): string {
  const { scope, source, keys, limit, offset, isMain, conditions } = plan;
  const guards = isMain && isFirst && !source ? guardsOf(statement) : [];
  const where = [...guards, ...conditions, ...(arm === undefined ? [] : [`(${arm})`])];
  return [
    `select ${list.join(', ')} from ${source?.() ?? statement.from(scope)}`,
    where.length > 0 ? ` where ${where.join(' and ')}` : '',
    orderBy(keys),
    limit === null ? '' : ` limit ${limit}`,
    offset > 0 ? ` offset ${offsetSql(statement, offset)}` : '',
  ].join('');
}

/** For a deep page: skips rows by an index-only scan of the key, and fetches only the rows of the page. */
export function skipRows(
  statement: Statement,
  scope: Scope,
  where: readonly Condition[],
  { keys }: Sorting,
  limit: number,
  offset: number,
): () => string {
  const inside: Scope = { table: scope.table, alias: statement.alias() };
  const names = keyOf(scope.table);
  const list = names.map((name, index) => `${columnSql(inside, name)} as k${index}`);
  const sorted = names.map((name) => columnSql(inside, name));
  const conditions = compileConditions(inside, where, statement.parameters);
  const skip = statement.alias();
  const on = names.map((name, index) => {
    const equal = operator(scope.table.columns.get(name) ?? null, '=');
    return `${columnSql(scope, name)} ${equal} ${skip}.k${index}`;
  });
  const end = `limit ${limit} offset ${offsetSql(statement, offset)}`;
  // A function, because the tables to guard are known only after everything else is compiled.
  return () => {
    const where = [...guardsOf(statement), conditions].filter(Boolean).join(' and ');
    const skipped = `select ${list.join(', ')} from ${statement.from(inside)} where ${where}${orderBy(keys, sorted)} ${end}`;
    return `(${skipped}) as ${skip} join ${statement.from(scope)} on ${on.join(' and ')}`;
  };
}

/** In a subselect, so that one plan serves every page: if the planner saw the number, it would replan each time. */
function offsetSql({ parameters }: Statement, offset: number): string {
  return `(select ${parameters.add(String(offset))}::pg_catalog.int8)`;
}

type Lateral = { join: string; outputs: Output[] };

function compileLateral(
  statement: Statement,
  parent: Scope,
  embed: Embed,
  isParentJson: boolean,
  outer: (column: string) => string,
): Lateral {
  const related = statement.relations.get(embed);
  if (!related) throw new Error(`${parent.table.name} has no relation ${embed.name}`);
  if (embed.items.length === 0) return { join: '', outputs: [] };
  const { isToOne } = related.reference;
  if (embed.isSpread && !isToOne) {
    throw errors.invalidRequest([
      { path: 'select', problem: `"${embed.name}" cannot be spread: it has many rows for each row` },
    ]);
  }
  const { scope, source, conditions } = join(statement, related, outer);
  const { keys } = sortingOf(scope, embed.order, `${embed.alias ?? embed.name}.order`);
  const isJson = embed.isSpread ? isParentJson : true;
  const rows = compileRows(statement, {
    scope,
    items: embed.items,
    conditions: [...conditions, ...conditionsIn(statement, scope, embed)],
    arms: [],
    // An order by ctid would only cost a sort.
    keys: isToOne ? [] : keys.filter(({ text }) => !/^(tableoid|ctid)\./.test(text)),
    cursorKeys: [],
    limit: isToOne ? 1 : embed.limit,
    offset: 0,
    isJson,
    source: () => source,
    isMain: false,
  });
  const alias = statement.alias();
  const joined = { isBare: false, isPlain: true, origin: 'joined' } as const;
  if (embed.isSpread) {
    const outputs = rows.outputs.map(({ name, shape }) => {
      return { name, sql: `${alias}.${id(name)}`, shape: isParentJson ? plainShape : shape, ...joined };
    });
    return { join: ` left join lateral (${rows.text}) as ${alias} on true`, outputs };
  }
  const whole = isToOne
    ? 'pg_catalog.row_to_json(r)'
    : "coalesce(pg_catalog.json_agg(r), '[]'::pg_catalog.json)";
  return {
    join: ` left join lateral (select ${whole} as j from (${rows.text}) as r) as ${alias} on true`,
    outputs: [{ name: embed.alias ?? embed.name, sql: `${alias}.j`, shape: plainShape, ...joined }],
  };
}

function conditionsIn(statement: Statement, scope: Scope, embed: Embed): string[] {
  const within = { ...scope, embedded: embeddedOf(statement, scope, embed.items) };
  const given = compileConditions(within, embed.where, statement.parameters);
  return [...(given === '' ? [] : [given]), ...statement.innerJoins(scope, embed.items)];
}

/** Tests whether a row of `parent` has any embedded row. */
function exists(statement: Statement, parent: Scope, embed: Embed): string {
  const related = statement.relations.get(embed);
  if (!related) throw new Error(`${parent.table.name} has no relation ${embed.name}`);
  const { scope, source, conditions } = join(statement, related, (name) => columnSql(parent, name));
  const where = [...conditions, ...conditionsIn(statement, scope, embed)];
  return `exists (select from ${source} where ${where.join(' and ')})`;
}

/** The embedded table, through a join table if there is one, and the conditions that join it to the outer row. */
function join(
  statement: Statement,
  { reference, table, through }: Related,
  outer: (column: string) => string,
) {
  statement.tables.set(table.oid, table);
  const scope: Scope = { table, alias: statement.alias() };
  if (!through || !reference.through) {
    const conditions = equate(scope, reference.targetColumns, reference.columns.map(outer));
    return { scope, source: statement.from(scope), conditions };
  }
  statement.tables.set(through.oid, through);
  const middle: Scope = { table: through, alias: statement.alias() };
  const far = reference.through.farColumns.map((name) => columnSql(middle, name));
  const on = equate(scope, reference.targetColumns, far).join(' and ');
  return {
    scope,
    source: `${statement.from(middle)} join ${statement.from(scope)} on ${on}`,
    conditions: equate(middle, reference.through.nearColumns, reference.columns.map(outer)),
  };
}

function equate(scope: Scope, names: readonly string[], others: readonly string[]): string[] {
  return names.map((name, index) => {
    return `${columnSql(scope, name)} ${operator(scope.table.columns.get(name) ?? null, '=')} ${others[index]}`;
  });
}
