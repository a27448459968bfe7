import { describe, expect, it } from 'vitest';
import { median, ratio, ratios, withoutAdded } from './load.mjs';

/** What wrk does: it adds the requests that a slow answer delayed, one per `expected`. */
function withAdded(took, expected) {
  const counts = new Map(took);
  for (const [value, count] of took)
    for (let added = value - expected; value >= 2 * expected && added > expected; added -= expected)
      counts.set(added, (counts.get(added) ?? 0) + count);
  return [...counts].sort(([a], [b]) => a - b);
}

describe('withoutAdded', () => {
  it('returns only the latencies that were measured, without those that wrk adds', () => {
    const took = [
      [900, 40],
      [1_000, 50],
      [1_700, 3],
      [2_000, 4],
      [3_400, 2],
      [60_000, 1],
    ];
    const told = withAdded(took, 1_000);
    expect(told.reduce((sum, [, count]) => sum + count, 0)).toBe(162);
    expect(withoutAdded(told, 1_000).filter(([, count]) => count > 0)).toEqual(took);
  });
});

describe('ratio', () => {
  it('compares neighbouring turns, not medians', () => {
    // The machine became twice as fast after the first turn, for both sides.
    const ours = [100, 200, 210];
    const theirs = [50, 100, 70];
    expect(ratios(ours, theirs)).toEqual([2, 2, 3]);
    expect(ratio(ours, theirs)).toBe(2);
    expect(median(ours) / median(theirs)).toBeCloseTo(2.86, 2);
  });

  it('uses a median that is the middle value, or the mean of the two in the middle', () => {
    expect(median([5, 1, 3])).toBe(3);
    expect(median([1, 2, 3, 10])).toBe(2.5);
  });
});
