// Turns the end of a statement into the error for its caller, or null if it succeeded.
import { errors, RowhouseError } from '../../errors/errors.ts';
import type { ServerError } from '../../postgres/wire/server-error.ts';
import { TooLargeError } from '../../postgres/wire/session.ts';
import { UnwrittenError } from '../../postgres/wire/session-errors.ts';
import { UnreplicatedError } from '../../postgres/wire/unreplicated.ts';
import type { SessionEffect, Statement } from '../statement/statement.ts';
import { refusalOf } from './acting-users.ts';
import { MovedError, note, noteFate, noteOverLimit, StatementFailed, saysOverLimit } from './failures.ts';
import type { Frame } from './frame.ts';
import { sqlFailure } from './sql-failure.ts';

/** PostgreSQL's status after the statement, or the error that broke the connection. */
export type Ended = 'idle' | 'transaction' | 'failed' | Error;

/** How far a statement had come when it ended. */
export type Course = Readonly<{
  frame: Frame;
  statement: Statement;
  effect: SessionEffect;
  failure: ServerError | null;
  /** COPY tried to switch to its own protocol. */
  isCopy: boolean;
  /** PostgreSQL had begun to run it. */
  isBound: boolean;
  /** PostgreSQL may have begun to run it. */
  isSent: boolean;
  /** The number of completed statements, including the frame's. */
  step: number;
  tag: string | null;
  /** Set by the deadline, or when the caller has hung up. */
  stoppedBy: RowhouseError | null;
  /** Rows were not shown, because it was stopped or moved. */
  isDiscarding: boolean;
  /** Why its rows could not be shown, although it ran to its end. */
  refusedBy: RowhouseError | null;
}>;

const transactionTag = /^(BEGIN|START TRANSACTION|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|PREPARE TRANSACTION)/;

/** Null if it succeeded. After a `StatementFailed` the session is usable. */
export function problemOf(status: Ended, course: Course): Error | null {
  const { stoppedBy, refusedBy, failure, isBound, frame } = course;
  // There is a commit: a statement that looks like a read has written, through an operator or a view.
  if (status instanceof UnreplicatedError && !frame.isReadOnly) return errors.outcomeUnknown(status);
  if (stoppedBy && !isCommitted(status, course)) {
    if (mayHaveStayed(status, course)) return errors.outcomeUnknown(status);
    return noteFate(stoppedBy, isUndone(status, course) ? 'undone' : 'uncertain');
  }
  if (refusedBy && status === 'idle' && !failure) return errors.rowsNotShown(refusedBy);
  const problem = problemBy(status, course);
  if (problem && isBound && commitsInside(course))
    noteFate(problem instanceof StatementFailed ? problem.reason : problem, 'uncertain');
  return problem;
}

/** Its commit was sent with it: if the session is lost, the outcome is unknown. */
export function isSentWithCommit(course: Pick<Course, 'frame' | 'effect'>): boolean {
  return course.frame.endsIn === 'idle' && mayChange(course);
}

/** It may change something that a commit keeps. */
export function mayChange({ frame, effect }: Pick<Course, 'frame' | 'effect'>): boolean {
  return effect !== 'none' && !frame.isReadOnly && frame.after.at(-1) !== 'rollback';
}

/** The session was cut, and its backend was seen to have written nothing: there is nothing that could be committed. */
function isUnwritten(status: Ended, { statement }: Course): boolean {
  return status instanceof UnwrittenError && !statement.canCommit;
}

/** A read that may have called anything. PostgreSQL has said that it ended it before it was complete: it is rolled back. */
function isEndedRead({ frame, statement, failure, step }: Course): boolean {
  return statement.isRead && failure !== null && step <= frame.before.length;
}

/** A procedure, or a statement that runs outside transactions: an error does not undo what it has committed. */
function commitsInside({ frame, statement }: Course): boolean {
  return statement.canCommit && frame.before.length === 0 && frame.endsIn === 'idle';
}

/** After a stop: PostgreSQL has reported that it failed, or was never told to commit. */
function isUndone(status: Ended, course: Course): boolean {
  if (!course.isSent || course.frame.endsIn !== 'idle') return true;
  // The session was cut: only a read, and what was seen to have written nothing, is known to have changed nothing.
  if (status instanceof Error)
    return !mayChange(course) || isUnwritten(status, course) || isEndedRead(course);
  return course.failure?.severity === 'ERROR' && !commitsInside(course);
}

/** It was stopped by cutting the session. An error before its end, a termination included, undoes it. */
function mayHaveStayed(status: Ended, course: Course): boolean {
  const { frame, failure, isSent, step, stoppedBy } = course;
  if (!(status instanceof Error) || status instanceof MovedError || !isSent) return false;
  if (isUnwritten(status, course)) return false;
  const hasFailed = failure !== null && step < lengthOf(frame);
  // It was too large, and its size is checked before the commit: it cannot have been committed.
  const isChecked = frame.after.some((command) => typeof command !== 'string');
  const isRefused = isChecked && stoppedBy?.status === 507;
  return isSentWithCommit(course) && !hasFailed && !isRefused;
}

/** It ended before the stop took effect: the caller gets its answer. */
function isCommitted(status: Ended, { frame, failure, step, isDiscarding }: Course): boolean {
  const isWhole = step === lengthOf(frame) && failure === null;
  return isWhole && !isDiscarding && frame.endsIn === 'idle' && status === 'idle';
}

function lengthOf({ before, after }: Frame): number {
  return before.length + 1 + after.length;
}

function problemBy(status: Ended, course: Course): Error | null {
  const { frame, statement, failure, isCopy, isBound, isSent, step, tag } = course;
  if (isCopy) {
    return errors.statementNotAllowed(
      'COPY FROM STDIN and COPY TO STDOUT are not allowed over HTTP.',
      'To export rows, use SELECT. To load rows, send CSV or JSON lines to POST …/tables/:table.',
    );
  }
  // An error that the sink threw is for the caller.
  if (status instanceof MovedError || status instanceof RowhouseError) return status;
  if (status instanceof TooLargeError) {
    return status.message === 'row'
      ? errors.resultTooLarge('A row of the result is larger than 128 MB.')
      : errors.resultTooLarge('A message of PostgreSQL about this statement is larger than 1 MB.');
  }
  const isUndone = !isSentWithCommit(course) || isEndedRead(course);
  if (status instanceof Error)
    return isUndone || !isSent ? errors.unavailable(status) : errors.outcomeUnknown(status);
  if (failure && failure.severity !== 'ERROR')
    return isUndone ? errors.unavailable(failure) : errors.outcomeUnknown(failure);
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
    return errors.invalidRequest([{ path: 'query', problem: 'must contain a statement' }]);
  // A text too large to be parsed can run in a transaction that we began, in which these statements have no effect.
  const isControl = !statement.isParsed && transactionTag.test(tag ?? '');
  if (status === frame.endsIn && !isControl) return null;
  return errors.statementNotAllowed(
    'A statement must not begin or end a transaction.',
    'Run several statements in one transaction with POST …/batch.',
  );
}
