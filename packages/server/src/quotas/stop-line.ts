// Where a running statement that may grow its project is stopped.
import { mb } from '../lib/bytes.ts';
import { rewriting } from './reserve.ts';

/** A statement that commits by itself must be stopped before it comes to the limit. */
export const unframedMargin = 32 * mb;
/** A statement that will be refused may go this far over, so that the size check before the commit decides, not the timer. */
export const overshoot = 2 * mb;

/** The lines of an admission (headroom.ts), in bytes. */
type Lines = Readonly<{ base: number; limit: number; cap: number; ceiling: number }>;

/**
 * Where an admitted statement is stopped. `adding`: it may not go over the limit. `rewriting`: for a moment it needs the
 * space that it will free.
 */
export function stopLine(
  { base, limit, cap, ceiling }: Lines,
  how: 'adding' | 'other' | 'rewriting',
): number {
  if (how === 'rewriting') return Math.max(base, limit) + rewriting;
  return Math.max(how === 'adding' ? Math.min(base, cap) : base, ceiling) + overshoot;
}
