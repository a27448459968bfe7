// What PostgreSQL said about the caller's SQL, as the API's own error.
import { errors, RowhouseError } from '../../errors.ts';
import { isRaised, type ServerError } from '../../postgres/server-error.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { noteRaised } from './failures.ts';

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
/** Where PostgreSQL's words do not say what to do. */
const hints = new Map([
  ['08P01', 'Give "params" one value for each of $1 … $n, no fewer and no more.'],
  ['25006', 'The request says "read_only", or its key has the scope "query:read" alone.'],
]);

/** What a project's own code raises is answered by the status of its code, and is nothing more than an answer. */
export function sqlFailure(error: ServerError): RowhouseError {
  return isRaised(error) ? noteRaised(failureOf(error, true)) : failureOf(error, false);
}

function failureOf(error: ServerError, wasChosen: boolean): RowhouseError {
  const { state, message, detail, hint, position, schema, table, column, constraint } = error;
  const given = { state, position, detail, hint, schema, table, column, constraint };
  const sql = Object.fromEntries(
    Object.entries(given).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
  if (state === sqlstate.diskFull && !wasChosen) return errors.serverFull(undefined, { sql });
  const retryable = conflicts.get(state);
  if (retryable !== undefined) {
    return new RowhouseError('conflict', message, { sql, details: { retryable: retryable && !wasChosen } });
  }
  if (state.startsWith('23') || badValues.has(state))
    return new RowhouseError('constraint_violation', message, { sql });
  const next = wasChosen ? undefined : hints.get(state);
  return new RowhouseError('sql_error', message, {
    sql,
    ...(next !== undefined && { hint: next }),
    ...(state === '42501' && { status: 403 }),
  });
}
