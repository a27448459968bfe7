// Facts about a failed statement that its caller never sees: whether the session is usable, whether anything ran, and
// where PostgreSQL failed.
import { RowhouseError } from '../../errors/errors.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { isRaisedBy, type ServerError } from '../../postgres/wire/server-error.ts';

const unstarted = new WeakSet<Error>();
const contexts = new WeakMap<Error, string>();
const routines = new WeakMap<Error, string>();
const overLimit = new WeakSet<Error>();
const raised = new WeakSet<Error>();
const fates = new WeakMap<Error, Fate>();

/** PostgreSQL's CONTEXT of the failure. For clearer messages; never passed on. */
export function contextOf(error: Error): string | undefined {
  return contexts.get(error);
}

/** The routine in PostgreSQL's source that reported the failure. For clearer messages; never passed on. */
export function routineOf(error: Error): string | undefined {
  return routines.get(error);
}

/** The project's code chose the SQLSTATE: it is information for the caller, and the service decides nothing by it. */
export function wasRaised(error: unknown): boolean {
  return error instanceof Error && raised.has(error);
}

export function noteRaised<T extends Error>(error: T): T {
  raised.add(error);
  return error;
}

const overLimitState = 'RH507';

/** Raised by rowhouse.check_size. The project's deferred triggers run at the same time and can raise the same state. */
export function saysOverLimit(error: ServerError): boolean {
  return error.state === overLimitState && isRaisedBy('rowhouse.check_size', error);
}

/** undone: certainly nothing is committed. uncertain: some or all of it may be. */
export type Fate = 'undone' | 'uncertain';

/** Undefined: unknown. For a statement that was stopped while it ran, this means the same as `uncertain`. */
export function fateOf(error: Error): Fate | undefined {
  return fates.get(error);
}

/** Once something may be committed, a later failure does not undo it. */
export function noteFate<T extends Error>(error: T, fate: Fate): T {
  if (fates.get(error) !== 'uncertain') fates.set(error, fate);
  return error;
}

/** Our size check before the commit refused it. */
export function isOverLimit(error: unknown): boolean {
  return error instanceof Error && overLimit.has(error);
}

export function noteOverLimit<T extends Error>(error: T): T {
  overLimit.add(error);
  return error;
}

/** "cannot run inside a transaction block", and a COMMIT inside one. */
export function wantsNoTransaction(error: unknown): boolean {
  const state = error instanceof RowhouseError && !wasRaised(error) ? error.sql?.state : undefined;
  return state === '25001' || state === '2D000';
}

/** It may have written much, also where nothing had to be measured. */
export function wasInterrupted(error: unknown): boolean {
  return error instanceof RowhouseError && ['query_timeout', 'request_timeout'].includes(error.code);
}

/** Its time was over, and nothing of it has happened. */
export function isLate(error: unknown): boolean {
  return error instanceof RowhouseError && error.code === 'query_timeout' && fateOf(error) === 'undone';
}

type Facts = { neverRan: boolean; context: string | undefined; routine: string | undefined };

/** Records facts about a failure that its caller is not told. */
export function note(error: Error, { neverRan, context, routine }: Facts): void {
  if (neverRan) unstarted.add(error);
  if (context !== undefined) contexts.set(error, context);
  if (routine !== undefined) routines.set(error, routine);
}

/** `copy` describes the same failure with another message. */
export function inherit<T extends Error>(copy: T, original: Error): T {
  const [context, routine] = [contexts.get(original), routines.get(original)];
  const fate = fates.get(original);
  if (fate) noteFate(copy, fate);
  if (overLimit.has(original)) overLimit.add(copy);
  if (raised.has(original)) raised.add(copy);
  note(copy, { neverRan: unstarted.has(original), context, routine });
  return copy;
}

/** The statement failed before it was planned, so nothing ran. */
export function neverRan(error: unknown): boolean {
  return error instanceof Error && unstarted.has(error);
}

/**
 * For a statement that was assumed only to read, and so ran in a read-only transaction. If the project's code raised the
 * same state, the statement runs again in an exclusive session, and its caller gets that error.
 */
export function triedToWrite(error: unknown): boolean {
  const reason = error instanceof StatementFailed ? error.reason : error;
  return reason instanceof RowhouseError && reason.sql?.state === sqlstate.readOnlyTransaction;
}

/** The statement failed, but the session is usable. `status` tells whether a transaction is still open. */
export class StatementFailed extends Error {
  readonly reason: RowhouseError;
  readonly status: 'idle' | 'transaction' | 'failed';

  constructor(reason: RowhouseError, status: 'idle' | 'transaction' | 'failed') {
    super(reason.message);
    this.reason = reason;
    this.status = status;
  }
}

/** The statement did not run here and has to run elsewhere. */
export class MovedError extends Error {}

/** Locks and conflicts, limits, cancelling and the end of a session: about the moment, not about the statement. */
export function isOfTheMoment({ state }: ServerError): boolean {
  return momentary.has(state.slice(0, 2));
}
const momentary = new Set(['40', '53', '55', '57', '58']);
