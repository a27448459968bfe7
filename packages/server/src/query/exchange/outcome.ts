// Turns the end of a statement into the error for its caller, or null if it succeeded.
import { errors, RowhouseError } from '../../errors.ts';
import type { ServerError } from '../../postgres/server-error.ts';
import { TooLargeError } from '../../postgres/session.ts';
import type { Statement } from '../statement/statement.ts';
import { refusalOf } from './acting-users.ts';
import { MovedError, note, noteOverLimit, StatementFailed, saysOverLimit } from './failures.ts';
import type { Frame } from './frame.ts';
import { sqlFailure } from './sql-failure.ts';

/** PostgreSQL's status after the statement, or the error that broke the connection. */
export type Ended = 'idle' | 'transaction' | 'failed' | Error;

type Outcome = Readonly<{
  status: Ended;
  frame: Frame;
  statement: Statement;
  failure: ServerError | null;
  /** COPY tried to switch to its own protocol. */
  isCopy: boolean;
  /** PostgreSQL had begun to run it. */
  isBound: boolean;
  /** PostgreSQL may have begun to run it. */
  isSent: boolean;
  isRead: boolean;
  /** The number of completed statements, including ours around the caller's. */
  step: number;
  tag: string | null;
}>;

const transactionTag = /^(BEGIN|START TRANSACTION|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|PREPARE TRANSACTION)/;

/** Null if it succeeded. After a `StatementFailed` the session is usable. */
export function problemOf(outcome: Outcome): Error | null {
  const { status, frame, statement, failure, isCopy, isBound, isSent, isRead, step, tag } = outcome;
  if (isCopy) {
    return errors.statementNotAllowed(
      'COPY to or from the client makes no sense over HTTP.',
      'Use SELECT or INSERT.',
    );
  }
  // An error that the sink threw is for the caller.
  if (status instanceof MovedError || status instanceof RowhouseError) return status;
  if (status instanceof TooLargeError) {
    return status.message === 'row'
      ? errors.resultTooLarge('A row of the result is larger than 128 MB.')
      : errors.resultTooLarge("PostgreSQL's message about this statement is larger than 1 MB.");
  }
  if (status instanceof Error)
    return isRead || !isSent ? errors.unavailable(status) : errors.outcomeUnknown(status);
  if (failure && failure.severity !== 'ERROR')
    return isRead ? errors.unavailable(failure) : errors.outcomeUnknown(failure);
  if (failure) {
    if (step < frame.before.length) return refusalOf(failure, status);
    const reason = sqlFailure(failure);
    note(reason, { neverRan: !isBound, context: failure.where, routine: failure.routine });
    // The caller's own code raises errors with its statement, not after it.
    if (step > frame.before.length && saysOverLimit(failure)) noteOverLimit(reason);
    return new StatementFailed(reason, status);
  }
  // PostgreSQL found no statement in a text too large to be parsed.
  if (!statement.isParsed && tag === '')
    return errors.invalidRequest([{ path: 'query', problem: 'holds no statement' }]);
  // A text too large to be parsed can run in a transaction that we began, in which these statements have no effect.
  const isControl = !statement.isParsed && transactionTag.test(tag ?? '');
  if (status === frame.endsIn && !isControl) return null;
  return errors.statementNotAllowed(
    'A statement must neither begin nor end a transaction.',
    'Use POST …/batch.',
  );
}
