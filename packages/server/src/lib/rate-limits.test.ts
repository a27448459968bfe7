import { expect, it } from 'vitest';
import { openBuckets } from './rate-limits.ts';

/** Buckets on a clock that stands still until it is set. */
function onClock(most = 100) {
  let at = 1_700_000_000_000;
  const buckets = openBuckets({ now: () => at, most });
  const pass = (ms: number) => {
    at += ms;
  };
  const taken = (key: string, rate: Parameters<typeof buckets.take>[1], times: number) =>
    Array.from({ length: times }, () => buckets.take(key, rate)).filter((waitMs) => waitMs === 0).length;
  return { buckets, pass, taken };
}
const rate = { burst: 3, refillMs: 6_000 };

it('gives the burst at once, then one in each refill time, and never more than the burst', () => {
  const { pass, taken } = onClock();
  expect(taken('a', rate, 10)).toBe(3);
  expect(taken('b', rate, 10)).toBe(3);
  pass(5_999);
  expect(taken('a', rate, 10)).toBe(0);
  pass(1);
  expect(taken('a', rate, 10)).toBe(1);
  pass(12_000);
  expect(taken('a', rate, 10)).toBe(2);
  pass(3_600_000);
  expect(taken('a', rate, 10)).toBe(3);
});

it('tells how long it takes until there is one again, and refusals cost nothing', () => {
  const { buckets, pass, taken } = onClock();
  taken('a', rate, 3);
  pass(1_500);
  expect(taken('a', rate, 50)).toBe(0);
  expect(buckets.take('a', rate)).toBe(4_500);
  pass(4_500);
  expect(buckets.take('a', rate)).toBe(0);
});

it('gives back what did not count, and nothing beyond the burst', () => {
  const { buckets, taken } = onClock();
  buckets.take('a', rate);
  for (let n = 0; n < 5; n++) buckets.refund('a', rate);
  buckets.refund('b', rate);
  expect(taken('a', rate, 10)).toBe(3);
  buckets.refund('a', rate);
  expect(taken('a', rate, 10)).toBe(1);
});

it('gives nothing when the clock is set back, and locks nobody out for longer than the limit', () => {
  const { buckets, pass, taken } = onClock();
  taken('a', rate, 3);
  pass(-86_400_000);
  expect(buckets.take('a', rate)).toBe(6_000);
  pass(6_000);
  expect(taken('a', rate, 10)).toBe(1);
});

it('loses nothing to rounding, at any rate', () => {
  for (const burst of [1, 3, 7, 30, 49]) {
    const { pass, taken } = onClock();
    const perSecond = { burst, refillMs: 1000 / burst };
    expect(taken('a', perSecond, burst + 5), `${burst} at once`).toBe(burst);
    pass(1000);
    expect(taken('a', perSecond, burst + 5), `${burst} a second later`).toBe(burst);
  }
});

it('gives nothing at a rate of zero', () => {
  const { pass, taken } = onClock();
  const zero = { burst: 0, refillMs: 1000 / 0 };
  expect(taken('a', zero, 3)).toBe(0);
  pass(3_600_000);
  expect(taken('a', zero, 3)).toBe(0);
});

it('follows a rate that changes', () => {
  const { pass, taken } = onClock();
  taken('a', { burst: 1, refillMs: 60_000 }, 5);
  pass(1_000);
  expect(taken('a', { burst: 10, refillMs: 100 }, 20)).toBe(10);
});

it('remembers those that were used last', () => {
  const { taken } = onClock(2);
  for (const key of ['a', 'b', 'c']) taken(key, rate, 3);
  expect(taken('c', rate, 3)).toBe(0);
  expect(taken('a', rate, 3)).toBe(3);
});
