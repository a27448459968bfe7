// What PostgreSQL said about the caller's SQL, as the API's own error.
import { errors, RowhouseError } from '../errors.ts';
import type { ServerError } from '../postgres/server-error.ts';
import { sqlstate } from '../postgres/sqlstate.ts';

const badValues = new Set([
  '22001',
  '22003',
  '22007',
  '22008',
  '22P02',
  '22P03',
  '22P05',
  '22021',
  '22026',
  '22032',
]);
const conflicts = new Map([
  ['23505', false],
  ['40001', true],
  ['40P01', true],
]);
/** Where PostgreSQL's words do not say what to do. No more than hints: a project's own code can raise these too. */
const hints = new Map([
  ['08P01', 'Give "params" one value for each of $1 … $n, no fewer and no more.'],
  ['25006', 'The request says "read_only", or its key has the scope "query:read" alone.'],
]);

export function sqlFailure(error: ServerError): RowhouseError {
  const { state, message, detail, hint, position, schema, table, column, constraint } = error;
  const given = { state, position, detail, hint, schema, table, column, constraint };
  const sql = Object.fromEntries(
    Object.entries(given).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
  if (state === sqlstate.diskFull) return errors.serverFull(undefined, { sql });
  const retryable = conflicts.get(state);
  if (retryable !== undefined) {
    return new RowhouseError('conflict', message, { sql, details: { retryable } });
  }
  if (state.startsWith('23') || badValues.has(state))
    return new RowhouseError('constraint_violation', message, { sql });
  const next = hints.get(state);
  return new RowhouseError('sql_error', message, {
    sql,
    ...(next !== undefined && { hint: next }),
    ...(state === '42501' && { status: 403 }),
  });
}
