// The statements of one transaction, and the answers to them.
import { RowhouseError } from '../errors/errors.ts';
import { inherit, StatementFailed } from './exchange/failures.ts';
import type { HeldAnswer } from './exchange/held-answer.ts';
import type { CompiledQuery } from './run.ts';

export type Step = Pick<CompiledQuery, 'statement' | 'input' | 'form'> &
  Readonly<{ expectAffected?: number | undefined }>;

/** The answer to each statement, in pieces. `held` counts the memory: the whole answer has to be composed with it. */
export type Parts = Readonly<{ held: HeldAnswer; parts: readonly Buffer[][] }>;

/** The error of one statement says which one it is. */
export function atIndex(error: unknown, index: number): unknown {
  if (error instanceof StatementFailed)
    return new StatementFailed(atIndex(error.reason, index) as RowhouseError, error.status);
  if (!(error instanceof RowhouseError)) return error;
  const details = { ...(error.details as object | undefined), statement: index };
  const { code, message, hint, retryAfterS, status, sql } = error;
  const copy = new RowhouseError(code, message, {
    details,
    status,
    cause: error.cause,
    ...(hint !== undefined && { hint }),
    ...(retryAfterS !== undefined && { retryAfterS }),
    ...(sql !== undefined && { sql }),
  });
  return inherit(copy, error);
}
