// How a statement fails, for those who run it: whether the session can go on, whether anything ran, where PostgreSQL was.
import type { RowhouseError } from '../errors.ts';

const unstarted = new WeakSet<Error>();
const contexts = new WeakMap<Error, string>();

/** PostgreSQL's CONTEXT: where it was when it failed. For clearer messages; never passed on. */
export function contextOf(error: Error): string | undefined {
  return contexts.get(error);
}

/** What is known of a failure besides what its caller is told. */
export function note(error: Error, facts: { neverRan: boolean; context: string | undefined }): void {
  if (facts.neverRan) unstarted.add(error);
  if (facts.context !== undefined) contexts.set(error, facts.context);
}

/** `copy` says the same in other words. */
export function inherit<T extends Error>(copy: T, original: Error): T {
  note(copy, { neverRan: unstarted.has(original), context: contexts.get(original) });
  return copy;
}

/** The statement failed before it was planned: nothing of it ran. */
export function neverRan(error: unknown): boolean {
  return error instanceof Error && unstarted.has(error);
}

/** The statement failed, the session did not; `status` says whether a transaction is still open. */
export class Sound extends Error {
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
