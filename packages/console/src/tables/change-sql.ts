// Staged edits as the statements of one batch. Every statement must affect exactly one row, and an update or a delete also
// compares the values that the person saw: if another client changed one of them, nothing is applied. Of a long value that was not
// opened, that is its beginning.
import type { Table } from '../api/queries.ts';
import type { Staged, Value } from '../grid/staged.ts';
import { kindOf, textOf } from '../grid/value.ts';
import { arrayText, elementOf } from './array-text.ts';
import { isCut, readBytes, readChars } from './long-values.ts';

export type Statement = { query: string; params: Value[]; expect_affected: 1 };
type Values = Record<string, Value>;
/** How a value gets into the text: as the number of a parameter, or as a literal. */
export type Place = (value: Value) => string;
type Change = (place: Place) => string;

/** What is sent. */
export function changeStatements(table: Table, staged: Staged): Statement[] {
  return changes(table, staged).map((change) => {
    const params: Value[] = [];
    return { query: change((value) => `$${params.push(value)}`), params, expect_affected: 1 };
  });
}

/** The same statements to be read: with literals in place of parameters, so that they run anywhere as they are shown. */
export function readableStatements(table: Table, staged: Staged): string[] {
  return changes(table, staged).map((change) => change(literal));
}

export const quoteName = (name: string) => `"${name.replaceAll('"', '""')}"`;

/** Deletes first, so that a new row can take the key of a deleted one. */
function changes(table: Table, staged: Staged): Change[] {
  return [
    ...[...staged.deleted.values()].map((before) => deletion(table, before)),
    ...[...staged.changed.values()].map(({ before, set }) => update(table, before, set)),
    ...[...staged.inserted.values()].map((values) => insertion(table, values)),
  ];
}

const update =
  (table: Table, before: Values, set: Values): Change =>
  (place) => {
    const assigned = Object.entries(set).map(
      ([column, value]) => `${quoteName(column)} = ${cast(table, column, value, place)}`,
    );
    const same = [
      ...keyConditions(table, before, place),
      ...sameConditions(table, before, Object.keys(set), place),
    ];
    return `update ${nameOf(table)} set ${assigned.join(', ')} where ${same.join(' and ')}`;
  };

/** Compares the whole row: a row that changed meanwhile may be one that should stay. */
const deletion =
  (table: Table, before: Values): Change =>
  (place) => {
    const others = otherColumns(table, before);
    const same = [...keyConditions(table, before, place), ...sameConditions(table, before, others, place)];
    return `delete from ${nameOf(table)} where ${same.join(' and ')}`;
  };

const insertion =
  (table: Table, values: Values): Change =>
  (place) => {
    const columns = Object.keys(values);
    if (columns.length === 0) return `insert into ${nameOf(table)} default values`;
    const list = columns.map((column) => cast(table, column, values[column], place));
    return `insert into ${nameOf(table)} (${columns.map(quoteName).join(', ')}) values (${list.join(', ')})`;
  };

export function keyConditions(table: Table, before: Values, place: Place): string[] {
  return table.primary_key.map(
    (column) => `${quoteName(column)} = ${cast(table, column, before[column], place)}`,
  );
}

export function sameConditions(table: Table, before: Values, columns: string[], place: Place): string[] {
  return columns
    .filter((column) => column in before)
    .map((column) => {
      const value = before[column];
      if (value !== null) return comparison(table, column, value, place);
      const name = quoteName(column);
      // The API writes the null of JSON like NULL.
      return isJson(typeOf(table, column)) ? `coalesce(${name}::jsonb, 'null') = 'null'` : `${name} is null`;
    });
}

/** The columns that a deletion compares. */
export const otherColumns = (table: Table, before: Values) =>
  Object.keys(before).filter((column) => !table.primary_key.includes(column));

/** Stands for a value that the page cannot hold exactly, such as JSON with a number of 20 digits. */
export class Digest {
  readonly md5: string;

  constructor(md5: string) {
    this.md5 = md5;
  }
}

/** Types without an equality (json, xml, point) are compared by a form that has one. */
function comparison(table: Table, column: string, value: Value, place: Place): string {
  const name = quoteName(column);
  const type = typeOf(table, column);
  if (value instanceof Digest) return `md5(${name}::text) = ${place(value.md5)}`;
  // The person saw only its beginning.
  if (isCut(value, type)) {
    return type === 'bytea'
      ? `substring(${name}, 1, ${readBytes}) = ${place(value)}::bytea`
      : `left(${name}::text, ${readChars}) = ${place(value)}`;
  }
  if (kindOf(type) === 'json') return `${name}::jsonb = ${place(JSON.stringify(value))}::jsonb`;
  if (hasEquality(elementOf(type))) return `${name} = ${cast(table, column, value, place)}`;
  if (typeof value === 'object') return `to_jsonb(${name}) = to_jsonb(${cast(table, column, value, place)})`;
  return `${name}::text = ${place(textOf(value))}`;
}

/** The value as one of the column's type. */
function cast(table: Table, column: string, value: Value, place: Place): string {
  const type = typeOf(table, column);
  const written = castOf(type);
  if (value === null || value === undefined) return `${place(null)}::${written}`;
  if (kindOf(type) === 'json') return `${place(JSON.stringify(value))}::${written}`;
  if (typeof value !== 'object') return `${place(value)}::${written}`;
  if (kindOf(type) === 'array' && Array.isArray(value) && (isJson(elementOf(type)) || !hasObjects(value)))
    return `${place(arrayText(value, type))}::${written}`;
  // For a composite type, or a domain over one or over an array, PostgreSQL finds the type of each part.
  return `(json_populate_record(null::${nameOf(table)}, ${place(JSON.stringify({ [column]: value }))}::json)).${quoteName(column)}`;
}

const isJson = (type: string) => kindOf(type) === 'json';
const hasObjects = (values: readonly Value[]): boolean =>
  values.some((value) =>
    Array.isArray(value) ? hasObjects(value) : typeof value === 'object' && value !== null,
  );

/** Their equality is that of their texts as the API writes them. */
function hasEquality(type: string): boolean {
  return (
    ['number', 'boolean', 'text'].includes(kindOf(type)) ||
    /^(timestamp|time|date|interval|uuid|bytea|inet|cidr)\b/.test(type)
  );
}

/** numeric(10,2) would round before the comparison, and varchar(3) would cut before the check. */
const castOf = (type: string) => type.replace(/^(numeric|character varying|varchar)\([^)]*\)/, '$1');

const typeOf = (table: Table, column: string) =>
  table.columns.find(({ name }) => name === column)?.type ?? 'text';

export const nameOf = ({ schema, name }: Table) =>
  schema === 'public' ? quoteName(name) : `${quoteName(schema)}.${quoteName(name)}`;

/** Numbers are quoted, too: -32768::smallint would be the negative of a number that smallint does not have. */
function literal(value: Value): string {
  if (value === null || value === undefined) return 'null';
  return `'${textOf(value).replaceAll("'", "''")}'`;
}
