// Heights and widths in the grid, in pixels. How many rows it reads at once is gridPageRows in ../limits.ts.
import type { GridColumn } from './source.ts';
import { kindOf } from './value.ts';

export const rowHeight = 30;
export const gutterWidth = 52;

/** The width of a column until the person drags it. */
export function defaultWidth(column: GridColumn | undefined): number {
  if (!column) return 160;
  const least = Math.min(260, column.name.length * 8 + 64);
  const type = column.type.toLowerCase();
  if (type === 'uuid') return Math.max(least, 290);
  if (type.startsWith('timestamp')) return Math.max(least, 220);
  const byKind = { number: 110, boolean: 90, json: 260, text: 200, array: 180, other: 150 };
  return Math.max(least, byKind[kindOf(type)]);
}
