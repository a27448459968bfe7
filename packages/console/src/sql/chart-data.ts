// A result as series of numbers, in the form that the chart draws: x ascending, one array for each y.
import type { QueryResponse } from '@rowhouse/api';
import { kindOf } from '../grid/value.ts';

type Result = Pick<QueryResponse, 'columns' | 'types' | 'rows'>;
/** order: x has no measure, so its values stand side by side in the order of the rows. */
export type XKind = 'number' | 'time' | 'order';
export type ChartData = {
  kind: XKind;
  /** For `time`, seconds since 1970. For `order`, 0, 1, 2, … */
  x: number[];
  series: (number | null)[][];
  /** The texts of x. */
  labels: string[];
};

export const seriesMax = 5;

/** The columns that can be drawn: every one as x, those with numbers as y. */
export function chartColumns({ columns, types }: Pick<Result, 'columns' | 'types'>) {
  const isNumber = (name: string) => kindOf(types[columns.indexOf(name)] ?? '') === 'number';
  return { x: [...new Set(columns)], y: [...new Set(columns)].filter(isNumber) };
}

/** What most results mean: the first column against the numbers that follow. null: nothing can be drawn. */
export function firstChoice(result: Pick<Result, 'columns' | 'types'>): { x: string; y: string[] } | null {
  const { x, y } = chartColumns(result);
  const [first] = x;
  const others = y.filter((name) => name !== first);
  if (first === undefined || y.length === 0) return null;
  return { x: first, y: others.length > 0 ? others.slice(0, 1) : y.slice(0, 1) };
}

export function chartData({ columns, types, rows }: Result, x: string, y: readonly string[]): ChartData {
  const kind = xKindOf(types[columns.indexOf(x)] ?? '');
  const points = rows.map((row, index) => ({ row, at: kind === 'order' ? index : measure(row[x], kind) }));
  const drawn = points.filter(
    (point): point is (typeof points)[number] & { at: number } => point.at !== null,
  );
  if (kind !== 'order') drawn.sort((one, other) => one.at - other.at);
  return {
    kind,
    x: drawn.map(({ at }) => at),
    series: y.map((name) => drawn.map(({ row }) => measure(row[name], 'number'))),
    labels: drawn.map(({ row }) => (row[x] === null || row[x] === undefined ? 'NULL' : String(row[x]))),
  };
}

/** The range of an axis that contains zero, with some space beyond the longest bar. */
export function rangeFromZero(least: number | null, most: number | null): [number, number] {
  const [low, high] = [Math.min(0, least ?? 0), Math.max(0, most ?? 0)];
  return low === high ? [0, 1] : [low * 1.05, high * 1.05];
}

function xKindOf(type: string): XKind {
  if (kindOf(type) === 'number') return 'number';
  return /^(date|timestamp)/i.test(type) ? 'time' : 'order';
}

/** null: not a place on a scale, such as NULL, NaN and infinity. */
function measure(value: unknown, kind: 'number' | 'time'): number | null {
  if (value === null || value === undefined || value === '') return null;
  const number = kind === 'time' ? Date.parse(String(value)) / 1000 : Number(value);
  return Number.isFinite(number) ? number : null;
}
