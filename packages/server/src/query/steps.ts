// The statements of one transaction, and the answers to them.
import type { HeldAnswer } from './exchange/held-answer.ts';
import type { CompiledQuery } from './run.ts';

export type Step = Pick<CompiledQuery, 'statement' | 'input' | 'form'> &
  Readonly<{ expectAffected?: number | undefined }>;

/** The answer to each statement, in pieces. `held` counts the memory: the whole answer has to be composed with it. */
export type Parts = Readonly<{ held: HeldAnswer; parts: readonly Buffer[][] }>;
