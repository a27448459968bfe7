// How a statement fails, for those who run it: whether the session can go on, whether anything ran, where PostgreSQL was.
import { RowhouseError } from '../../errors.ts';
import { isRaisedBy, type ServerError } from '../../postgres/server-error.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';

const unstarted = new WeakSet<Error>();
const contexts = new WeakMap<Error, string>();
const routines = new WeakMap<Error, string>();
const overLimit = new WeakSet<Error>();
const raised = new WeakSet<Error>();
const fates = new WeakMap<Error, Fate>();

/** PostgreSQL's CONTEXT: where it was when it failed. For clearer messages; never passed on. */
export function contextOf(error: Error): string | undefined {
  return contexts.get(error);
}

/** Which part of PostgreSQL it was that failed. For clearer messages; never passed on. */
export function routineOf(error: Error): string | undefined {
  return routines.get(error);
}

/** Code of the project's chose the SQLSTATE: it tells the caller something, and decides nothing here. */
export function wasRaised(error: unknown): boolean {
  return error instanceof Error && raised.has(error);
}

export function noteRaised<T extends Error>(error: T): T {
  raised.add(error);
  return error;
}

const overLimitState = 'RH507';

/** By rowhouse.check_size. A deferred trigger of the project's fires beside it, and can raise the same. */
export function saysOverLimit(error: ServerError): boolean {
  return error.state === overLimitState && isRaisedBy('rowhouse.check_size', error);
}

/** undone: nothing of it is committed, for certain. uncertain: some of it may be, or all. */
export type Fate = 'undone' | 'uncertain';

/** Undefined: nothing is known, which for what was stopped while it ran is as good as `uncertain`. */
export function fateOf(error: Error): Fate | undefined {
  return fates.get(error);
}

/** Once something may be committed, what fails later does not undo it. */
export function noteFate<T extends Error>(error: T, fate: Fate): T {
  if (fates.get(error) !== 'uncertain') fates.set(error, fate);
  return error;
}

/** Our own look at the size, before the commit, said no. */
export function isOverLimit(error: unknown): boolean {
  return error instanceof Error && overLimit.has(error);
}

export function noteOverLimit<T extends Error>(error: T): T {
  overLimit.add(error);
  return error;
}

type Facts = { neverRan: boolean; context: string | undefined; routine: string | undefined };

/** What is known of a failure besides what its caller is told. */
export function note(error: Error, { neverRan, context, routine }: Facts): void {
  if (neverRan) unstarted.add(error);
  if (context !== undefined) contexts.set(error, context);
  if (routine !== undefined) routines.set(error, routine);
}

/** `copy` says the same in other words. */
export function inherit<T extends Error>(copy: T, original: Error): T {
  const [context, routine] = [contexts.get(original), routines.get(original)];
  const fate = fates.get(original);
  if (fate) noteFate(copy, fate);
  if (overLimit.has(original)) overLimit.add(copy);
  if (raised.has(original)) raised.add(copy);
  note(copy, { neverRan: unstarted.has(original), context, routine });
  return copy;
}

/** The statement failed before it was planned: nothing of it ran. */
export function neverRan(error: unknown): boolean {
  return error instanceof Error && unstarted.has(error);
}

/**
 * Of a statement that was taken to read alone, and so ran in a read-only transaction. A project's code can raise the same
 * state: then the statement runs again by itself, and its caller is told what it says.
 */
export function triedToWrite(error: unknown): boolean {
  const reason = error instanceof StatementFailed ? error.reason : error;
  return reason instanceof RowhouseError && reason.sql?.state === sqlstate.readOnlyTransaction;
}

/** The statement failed, the session did not; `status` says whether a transaction is still open. */
export class StatementFailed extends Error {
  readonly reason: RowhouseError;
  readonly status: 'idle' | 'transaction' | 'failed';

  constructor(reason: RowhouseError, status: 'idle' | 'transaction' | 'failed') {
    super(reason.message);
    this.reason = reason;
    this.status = status;
  }
}

/** Not run here after all. */
export class MovedError extends Error {}
