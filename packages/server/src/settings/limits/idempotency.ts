// How long responses are kept for an Idempotency-Key, and how many. See docs/idempotency.md.
import { mb } from '../../lib/bytes.ts';

/** How long a response is kept for a repeated request. */
export const keptResponseHours = 24;

export const idempotencyLimits = {
  /** Running requests are marked as alive every `beatMs`. One without a mark for `aliveMs` counts as dead. */
  beatMs: 3_000,
  aliveMs: 15_000,
  /** Per account. Everyone can get hold of a publishable key, so that these share a tenth of it. */
  maxKeys: 100_000,
  maxAnswerBytes: mb,
  /** For all stored responses of an account. Above it, only small responses are stored. */
  maxBytes: 256 * mb,
  smallBytes: 4096,
};
