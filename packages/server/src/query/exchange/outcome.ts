// What it means for the caller how a statement ended, unless it simply ended well.
import { errors, RowhouseError } from '../../errors.ts';
import type { ServerError } from '../../postgres/server-error.ts';
import { TooLargeError } from '../../postgres/session.ts';
import type { Statement } from '../statement/statement.ts';
import { refusalOf } from './acting-users.ts';
import { MovedError, note, noteOverLimit, StatementFailed, saysOverLimit } from './failures.ts';
import type { Frame } from './frame.ts';
import { sqlFailure } from './sql-failure.ts';

/** PostgreSQL's status after it, or why there is none. */
export type Ended = 'idle' | 'transaction' | 'failed' | Error;

type Outcome = Readonly<{
  status: Ended;
  frame: Frame;
  statement: Statement;
  failure: ServerError | null;
  /** COPY wanted to speak its own protocol. */
  isCopy: boolean;
  /** PostgreSQL had begun with it. */
  isBound: boolean;
  /** It may have. */
  isSent: boolean;
  isRead: boolean;
  /** How many came to their end, those around the caller's statement included. */
  step: number;
  tag: string | null;
}>;

const transactionTag = /^(BEGIN|START TRANSACTION|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|PREPARE TRANSACTION)/;

/** Null: nothing is wrong. A `StatementFailed` error leaves the session usable. */
export function problemOf(outcome: Outcome): Error | null {
  const { status, frame, statement, failure, isCopy, isBound, isSent, isRead, step, tag } = outcome;
  if (isCopy) {
    return errors.statementNotAllowed(
      'COPY to or from the client makes no sense over HTTP.',
      'Use SELECT or INSERT.',
    );
  }
  // What the sink threw is the caller's to hear.
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
    // What the caller's own code raises comes with its statement, not after it.
    if (step > frame.before.length && saysOverLimit(failure)) noteOverLimit(reason);
    return new StatementFailed(reason, status);
  }
  // PostgreSQL found none in a text too large to be parsed.
  if (!statement.isParsed && tag === '')
    return errors.invalidRequest([{ path: 'query', problem: 'holds no statement' }]);
  // Around a text too large to be parsed there can be a transaction of ours, in which these do nothing.
  const isControl = !statement.isParsed && transactionTag.test(tag ?? '');
  if (status === frame.endsIn && !isControl) return null;
  return errors.statementNotAllowed(
    'A statement must neither begin nor end a transaction.',
    'Use POST …/batch.',
  );
}
