// Turns PostgreSQL's error about the caller's SQL into an error of the API.
import { errors, RowhouseError } from '../../errors/errors.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { isRaised, type ServerError } from '../../postgres/wire/server-error.ts';
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
  ['08P01', 'Send exactly one value in "params" for each of $1 … $n.'],
  [
    '25001',
    'This statement cannot run in a transaction. Send it to POST …/query without "read_only", "dry_run" and "max_affected", with a key that has the scope "query".',
  ],
  [
    '25006',
    'Only statements that read are allowed with "read_only" or with the scope "query:read". To write, omit "read_only" and use a key that has the scope "query".',
  ],
]);

/** The name of a prepared statement belongs to the service, and means nothing to the caller. */
function withoutStatementName(message: string): string {
  return message.replace(
    /^bind message supplies (\d+) parameters, but prepared statement "\w*" requires (\d+)$/,
    '"params" has $1 values, but the statement requires $2',
  );
}

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
  return new RowhouseError('sql_error', isRaisedState ? message : withoutStatementName(message), {
    sql,
    ...(ownHint !== undefined && { hint: ownHint }),
    ...(state === '42501' && { status: 403 }),
  });
}
