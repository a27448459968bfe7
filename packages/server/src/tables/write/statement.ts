// What every statement that writes is made of besides its own words: whether the table takes it, what comes back of the
// rows, and what an error is explained with.
import { errors } from '../../errors.ts';
import type { JsonParameter } from '../../query/json/parameters.ts';
import type { Column, Table, TypeShape } from '../catalog/catalog.ts';
import { allColumns, type Item } from '../request/select.ts';
import { guard, id, literal, type Scope } from '../sql/expressions.ts';
import { as, outputsOf, refuseRepeats } from '../sql/outputs.ts';
import type { Row } from './body.ts';
import { refuse } from './values.ts';

export type CompiledWrite = Readonly<{
  text: string;
  /** null is SQL's NULL. */
  params: readonly (string | JsonParameter | null)[];
  /** Names of the result's columns; `hidden` further ones follow that are not shown. */
  columns: readonly string[];
  hidden: number;
  /** Everything the text was compiled for. */
  tables: readonly Table[];
  /** Running it leaves nothing in a session but what a sequence leaves. */
  isPlain: boolean;
  input: WriteInput;
}>;

/** What was given: an error is explained with it. */
export type WriteInput = Readonly<{
  verb: Verb;
  rows: readonly Row[];
  columns: readonly Column[];
  /** Of the first row in the body; null: the body is a single row. */
  firstIndex: number | null;
  /** The column that each parameter is for; null: several, or a filter. */
  parameters: readonly (Column | null)[];
}>;

export type Verb = 'insert' | 'update' | 'delete';

/** minimal: no row comes back. */
export type Returning = 'row' | 'minimal';

export type Shown = Readonly<{
  /** The clause, with and without the guard as a last column; without it, it can be empty. */
  guarded: string;
  returning: string;
  columns: readonly string[];
  isPlain: boolean;
}>;

/** All columns, or none, is what nearly everybody asks for; writing them out was half of what compiling a row cost. */
const usual = { row: new WeakMap<Table, Shown>(), minimal: new WeakMap<Table, Shown>() };

/** For a table that the statement calls t0. */
export function compileShown(table: Table, select: readonly Item[], returning: Returning): Shown {
  const items = returning === 'minimal' ? [] : select;
  if (returning === 'row' && select !== allColumns) return show(table, items);
  const known = usual[returning].get(table);
  if (known) return known;
  const shown = show(table, items);
  usual[returning].set(table, shown);
  return shown;
}

function show(table: Table, select: readonly Item[]): Shown {
  const scope: Scope = { table, alias: 't0' };
  const outputs = select.flatMap((item) => {
    if (item.is === 'embed') throw refuse('select', 'rows that are changed are shown without others');
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
 * Columns as JSON's reader needs them. Their types are spelled out, one by one: a null of the table's own type would do
 * for less, but PostgreSQL then refuses rows that leave out a column whose domain takes no null.
 */
export function definitions(columns: readonly Column[]): string {
  return columns.map(({ name, type }) => `${id(name)} ${type}`).join(', ');
}

/** A composite type can change without its table's noticing, and its attributes were looked at. */
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
      `"${table.name}" is a materialized view: its rows come from its query alone.`,
      'Write to the tables behind it, then REFRESH MATERIALIZED VIEW.',
      allowed,
    );
  }
  if (table.kind === 'view') {
    throw errors.tableNotWritable(
      `PostgreSQL cannot ${verb} through the view "${table.name}".`,
      'Write to the table behind it, or give the view an INSTEAD OF trigger.',
      allowed,
    );
  }
  throw errors.tableNotWritable(
    `What is behind the foreign table "${table.name}" does not take ${verb}.`,
    'Write to it where it lives.',
    allowed,
  );
}
