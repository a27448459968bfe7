// Staged edits as the statements of one batch. Every statement must affect exactly one row, and an update or a delete also
// compares the values that the person saw: if another client changed one of them, nothing is applied. Of a long value that was not
// opened, that is its beginning.
import type { Table } from '../api/queries.ts';
import type { Staged, Value } from '../grid/staged.ts';
import { kindOf, textOf } from '../grid/value.ts';
import { isCut, readBytes, readChars } from './long-values.ts';

export type Statement = { query: string; params: Value[]; expect_affected: 1 };
type Values = Record<string, Value>;

/** Deletes first, so that a new row can take the key of a deleted one. */
export function changeStatements(table: Table, staged: Staged): Statement[] {
  return [
    ...[...staged.deleted.values()].map((before) => deleteStatement(table, before)),
    ...[...staged.changed.values()].map(({ before, set }) => updateStatement(table, before, set)),
    ...[...staged.inserted.values()].map((values) => insertStatement(table, values)),
  ];
}

export const quoteName = (name: string) => `"${name.replaceAll('"', '""')}"`;

/** The statement with its parameters as literals, to be read and not to be run. */
export function readableSql({ query, params }: Statement): string {
  return query.replace(/\$(\d+)/g, (_, index: string) => literal(params[Number(index) - 1]));
}

function updateStatement(table: Table, before: Values, set: Values): Statement {
  const params: Value[] = [];
  const assigned = Object.entries(set).map(
    ([column, value]) => `${quoteName(column)} = ${parameter(table, column, value, params)}`,
  );
  const same = [
    ...keyConditions(table, before, params),
    ...sameConditions(table, before, Object.keys(set), params),
  ];
  const query = `update ${nameOf(table)} set ${assigned.join(', ')} where ${same.join(' and ')}`;
  return { query, params, expect_affected: 1 };
}

/** Compares the whole row: a row that changed meanwhile may be one that should stay. */
function deleteStatement(table: Table, before: Values): Statement {
  const params: Value[] = [];
  const others = Object.keys(before).filter((column) => !table.primary_key.includes(column));
  const same = [...keyConditions(table, before, params), ...sameConditions(table, before, others, params)];
  return { query: `delete from ${nameOf(table)} where ${same.join(' and ')}`, params, expect_affected: 1 };
}

function insertStatement(table: Table, values: Values): Statement {
  const params: Value[] = [];
  const columns = Object.keys(values);
  if (columns.length === 0) {
    return { query: `insert into ${nameOf(table)} default values`, params, expect_affected: 1 };
  }
  const list = columns.map((column) => parameter(table, column, values[column], params));
  const query = `insert into ${nameOf(table)} (${columns.map(quoteName).join(', ')}) values (${list.join(', ')})`;
  return { query, params, expect_affected: 1 };
}

function keyConditions(table: Table, before: Values, params: Value[]): string[] {
  return table.primary_key.map(
    (column) => `${quoteName(column)} = ${parameter(table, column, before[column], params)}`,
  );
}

function sameConditions(table: Table, before: Values, columns: string[], params: Value[]): string[] {
  return columns
    .filter((column) => column in before)
    .map((column) => {
      const value = before[column];
      if (value === null) return `${quoteName(column)} is null`;
      return comparison(table, column, value, params);
    });
}

/** Types without an equality (json, xml, point) are compared by a form that has one. */
function comparison(table: Table, column: string, value: Value, params: Value[]): string {
  const name = quoteName(column);
  const type = typeOf(table, column);
  // The person saw only its beginning.
  if (isCut(value, type)) {
    params.push(value);
    return type === 'bytea'
      ? `substring(${name}, 1, ${readBytes}) = $${params.length}::bytea`
      : `left(${name}::text, ${readChars}) = $${params.length}`;
  }
  if (kindOf(type) === 'json') {
    params.push(JSON.stringify(value));
    return `${name}::jsonb = $${params.length}::jsonb`;
  }
  if (typeof value === 'object' && kindOf(type) !== 'array') {
    params.push(JSON.stringify(value));
    return `to_jsonb(${name}) = $${params.length}::jsonb`;
  }
  if (kindOf(type) !== 'other' || /^(timestamp|time|date|interval|uuid)/.test(type)) {
    return `${name} = ${parameter(table, column, value, params)}`;
  }
  params.push(textOf(value));
  return `${name}::text = $${params.length}`;
}

function parameter(table: Table, column: string, value: Value, params: Value[]): string {
  const type = typeOf(table, column);
  params.push(kindOf(type) === 'json' && value !== null ? JSON.stringify(value) : value);
  return `$${params.length}::${castOf(type)}`;
}

/** numeric(10,2) would round before the comparison, and varchar(3) would cut before the check. */
const castOf = (type: string) =>
  /^(numeric|character varying|varchar)\(/.test(type) ? type.replace(/\([^)]*\)/, '') : type;

const typeOf = (table: Table, column: string) =>
  table.columns.find(({ name }) => name === column)?.type ?? 'text';

const nameOf = ({ schema, name }: Table) =>
  schema === 'public' ? quoteName(name) : `${quoteName(schema)}.${quoteName(name)}`;

function literal(value: Value): string {
  if (value === null || value === undefined) return 'null';
  if (typeof value === 'boolean' || typeof value === 'number') return String(value);
  return `'${textOf(value).replaceAll("'", "''")}'`;
}
