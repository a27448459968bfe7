import { describe, expect, test } from 'vitest';
import { intervalOf, movedBeyondNoise } from './noise.mjs';

describe('intervals of ratios', () => {
  test('nine turns give the smallest and the largest, twelve leave out one at each end', () => {
    expect(intervalOf([1.2, 1, 1.1, 0.9, 1.3, 1.05, 1.15, 0.95, 1.25])).toEqual([0.9, 1.3]);
    expect(intervalOf([9, 0.1, 1, 1.1, 1.2, 1.3, 1, 1.1, 1.2, 1.3, 1.15, 1.25])).toEqual([1, 1.3]);
  });

  test('too few turns are refused', () => {
    expect(() => intervalOf([1, 1, 1, 1, 1, 1, 1])).toThrow('An interval needs 8 turns, not 7.');
  });

  test('ratios on both sides of 1 are noise', () => {
    expect(movedBeyondNoise([0.8, 0.85, 0.9, 0.8, 0.85, 0.9, 0.8, 0.85, 1.01])).toBeNull();
  });

  test('ratios on one side of 1 are a change, unless it is tiny', () => {
    expect(movedBeyondNoise([0.8, 0.85, 0.9, 0.8, 0.85, 0.9, 0.8, 0.85, 0.99])).toBe('lower');
    expect(movedBeyondNoise([1.2, 1.1, 1.3, 1.2, 1.1, 1.3, 1.2, 1.1, 1.01])).toBe('higher');
    expect(movedBeyondNoise([1.01, 1.01, 1.01, 1.01, 1.01, 1.01, 1.01, 1.01, 1.01])).toBeNull();
  });

  test('two equal versions raise an alarm in less than two of a hundred comparisons', () => {
    // A generator with a fixed seed, so that the test always sees the same noise.
    let state = 1;
    const random = () => {
      state = (state * 48_271) % 2_147_483_647;
      return state / 2_147_483_647;
    };
    let alarms = 0;
    for (let run = 0; run < 5_000; run++) {
      const ratios = Array.from({ length: 9 }, () => (0.7 + random()) / (0.7 + random()));
      if (movedBeyondNoise(ratios)) alarms++;
    }
    expect(alarms).toBeGreaterThan(0);
    expect(alarms).toBeLessThan(100);
  });
});
