// Where a running statement that may grow its project is stopped.
import type { Admission } from './headroom.ts';
import { rewriting } from './reserve.ts';

const mb = 1024 * 1024;
/** A statement that commits by itself must be stopped before it comes to the limit. */
export const unframedMargin = 32 * mb;
/** A statement that will be refused may go this far over, so that the size check before the commit decides, not the timer. */
export const overshoot = 2 * mb;

/**
 * Where an admitted statement is stopped. `adding`: it may not go over the limit. `rewriting`: for a moment it needs the
 * space that it will free.
 */
export function stopLine(
  { base, limit, cap, ceiling }: Pick<Admission, 'base' | 'limit' | 'cap' | 'ceiling'>,
  how: 'adding' | 'other' | 'rewriting',
): number {
  if (how === 'rewriting') return Math.max(base, limit) + rewriting;
  return Math.max(how === 'adding' ? Math.min(base, cap) : base, ceiling) + overshoot;
}
