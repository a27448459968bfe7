// A key can be for some tables only. To it the others do not exist: what PostgreSQL says of a failure must not name them.
import { RowhouseError } from '../errors.ts';
import { contextOf } from '../query/exchange/failures.ts';
import type { MaySee, Table } from './catalog/catalog.ts';
import { retell } from './write/errors.ts';

export const seesAll: MaySee = () => true;

/** Said of what runs behind a request: views, triggers and functions reach tables that the key does not. */
const ofOtherTables = new Set(['42501', '42P01', '42P07', '3F000']);

/** `error`: as PostgreSQL gave it. `told`: what has been made of it for a caller who sees all. */
export function withoutHidden(
  error: RowhouseError,
  told: RowhouseError,
  table: Table,
  maySee: MaySee,
): RowhouseError {
  const { state = '', schema = 'public', table: name, constraint } = error.sql ?? {};
  if (maySee === seesAll || state === '') return told;
  if (name !== undefined && !maySee({ schema, name }))
    return instead(error, 'The request breaks a rule of a table that this key may not use.');
  if (state === '23503') {
    const key = table.references.find((one) => one.name === constraint && one.isOwn && !one.through);
    if (key && maySee(key.target)) return told;
    return instead(error, `The row refers to one that does not exist ("${constraint}").`, {
      constraint,
      columns: key?.columns ?? [],
    });
  }
  const isInside = state.startsWith('42') && contextOf(error) !== undefined;
  if (isInside || ofOtherTables.has(state))
    return instead(error, 'A view, trigger or function behind this request failed.');
  return told;
}

function instead(error: RowhouseError, message: string, details?: object): RowhouseError {
  const { code, status, cause, sql } = retell(error, {});
  return new RowhouseError(code, message, {
    ...{ status, cause },
    hint: 'A key without a list of tables is told more.',
    ...(sql?.state && { sql: { state: sql.state } }),
    ...(details && { details }),
  });
}
