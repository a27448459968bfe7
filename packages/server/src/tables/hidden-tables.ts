// A key can be limited to some tables. For such a key the others do not exist, so PostgreSQL's error messages must not
// name them.
import { RowhouseError } from '../errors/errors.ts';
import { contextOf } from '../query/exchange/failures.ts';
import type { MaySee, Table, TypeShape } from './catalog/catalog.ts';
import { reword } from './write/errors.ts';

export const seesAll: MaySee = () => true;

/** States about objects behind a request: views, triggers and functions reach tables that the key does not. */
const statesOfOtherTables = new Set(['42501', '42P01', '42P07', '3F000']);

/** Not null, foreign key, unique, check and exclusion: what PostgreSQL says about them names no type. */
const statesOfRules = new Set(['23502', '23503', '23505', '23514', '23P01']);

/** `error`: as PostgreSQL reported it. `explained`: the version for a caller who may see all tables. */
export function withoutHidden(
  error: RowhouseError,
  explained: RowhouseError,
  tables: readonly Table[],
  maySee: MaySee,
): RowhouseError {
  const { state = '', schema = 'public', table: name, constraint } = error.sql ?? {};
  const [table] = tables;
  if (maySee === seesAll || state === '' || !table) return explained;
  const isOfType = !statesOfRules.has(state) || hasDetail(explained, 'type');
  if (isOfType && hasRowTypes(tables))
    return genericError(error, 'A value of this request, or an operator, does not fit the type of a column.');
  if (name !== undefined && !maySee({ schema, name }))
    return genericError(error, 'The request breaks a rule of a table that this key may not use.');
  if (state === '23503') {
    const key = table.references.find((one) => one.name === constraint && one.isOwn && !one.through);
    if (key && maySee(key.target)) return explained;
    return genericError(error, `The row refers to one that does not exist ("${constraint}").`, {
      constraint,
      columns: key?.columns ?? [],
    });
  }
  const isInside = state.startsWith('42') && contextOf(error) !== undefined;
  if (isInside || statesOfOtherTables.has(state))
    return genericError(error, 'A view, trigger or function behind this request failed.');
  return explained;
}

/** A column holds rows of a table: its type has the name of that table. */
export function hasRowTypes(tables: readonly Table[]): boolean {
  return tables.some(({ columns }) => [...columns.values()].some(({ shape }) => holdsRows(shape)));
}

function holdsRows({ relation, fields }: TypeShape): boolean {
  return relation?.isTable === true || fields.some(({ shape }) => holdsRows(shape));
}

function hasDetail({ details }: RowhouseError, name: string): boolean {
  return typeof details === 'object' && details !== null && name in details;
}

function genericError(error: RowhouseError, message: string, details?: object): RowhouseError {
  const { code, status, cause, sql } = reword(error, {});
  return new RowhouseError(code, message, {
    status,
    cause,
    hint: 'Use a key that is not limited to some tables to see the details.',
    ...(sql?.state && { sql: { state: sql.state } }),
    ...(details && { details }),
  });
}
