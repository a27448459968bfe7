// Turns PostgreSQL's error about the caller's SQL into an error of the API.
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
/** For errors whose message does not tell what to do. */
const hints = new Map([
  ['08P01', 'Give "params" one value for each of $1 … $n, no fewer and no more.'],
  ['25006', 'The request says "read_only", or its key has the scope "query:read" alone.'],
]);

/** An error that the project's code raised gets the status of its SQLSTATE, and has no other consequence. */
export function sqlFailure(error: ServerError): RowhouseError {
  return isRaised(error) ? noteRaised(failureOf(error, true)) : failureOf(error, false);
}

function failureOf(error: ServerError, isRaisedState: boolean): RowhouseError {
  const { state, message, detail, hint, position, schema, table, column, constraint } = error;
  const given = { state, position, detail, hint, schema, table, column, constraint };
  const sql = Object.fromEntries(
    Object.entries(given).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
  if (state === sqlstate.diskFull && !isRaisedState) return errors.serverFull(undefined, { sql });
  const retryable = conflicts.get(state);
  if (retryable !== undefined) {
    return new RowhouseError('conflict', message, {
      sql,
      details: { retryable: retryable && !isRaisedState },
    });
  }
  if (state.startsWith('23') || badValues.has(state))
    return new RowhouseError('constraint_violation', message, { sql });
  const ownHint = isRaisedState ? undefined : hints.get(state);
  return new RowhouseError('sql_error', message, {
    sql,
    ...(ownHint !== undefined && { hint: ownHint }),
    ...(state === '42501' && { status: 403 }),
  });
}
