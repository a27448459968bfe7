// The error for a statement that is refused because its project, or the disk, is full.

import { errors, type RowhouseError } from '../errors/errors.ts';
import { toMb } from '../lib/bytes.ts';

/** `needs`: this much room at least. `hasCommitted`: part of it may be done. */
export type Why = { needs?: number; hasCommitted?: boolean };

type Sizes = Readonly<{ limit: number; size: number; empty: number; reserve: number }>;

export function refusalOf(
  { limit, size, empty, reserve }: Sizes,
  isDiskLow: boolean,
  { needs = 0, hasCommitted = false }: Why = {},
): RowhouseError {
  if (isDiskLow) return hasCommitted ? errors.stoppedForDisk() : errors.serverFull();
  const facts = { limit_mb: toMb(limit - empty), size_mb: toMb(size - empty) };
  if (hasCommitted) return errors.stoppedHalfway(facts);
  return needs > 0
    ? errors.needsMoreRoom(facts, toMb(needs))
    : errors.projectFull(facts, size > limit - reserve);
}
