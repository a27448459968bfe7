// Tells a change from noise: an interval for the median of ratios that does not depend on how they are distributed.

/** A comparison has many figures, and each of them may raise a false alarm only rarely. */
const confidence = 0.99;
/** A smaller change does not matter, however certain it is. */
const smallest = 0.02;

/** With fewer turns, no interval has this confidence. */
export const fewestTurns = 8;

/**
 * The interval of the median of these ratios: between the kth smallest and the kth largest, with the largest k for which a
 * fair coin would leave the true median outside in less than one of a hundred comparisons.
 */
export function intervalOf(ratios) {
  const n = ratios.length;
  if (n < fewestTurns) throw new Error(`An interval needs ${fewestTurns} turns, not ${n}.`);
  const sorted = [...ratios].sort((a, b) => a - b);
  let outside = 2 * 0.5 ** n;
  let [k, ways] = [1, 1];
  for (;;) {
    ways = (ways * (n - k + 1)) / k;
    outside += 2 * ways * 0.5 ** n;
    if (outside > 1 - confidence) break;
    k++;
  }
  return [sorted[k - 1], sorted[n - k]];
}

/** 'higher' or 'lower' if the ratios have moved away from 1 by more than noise, otherwise null. */
export function movedBeyondNoise(ratios) {
  const [low, high] = intervalOf(ratios);
  if (low > 1 && middleOf(low, high) >= 1 + smallest) return 'higher';
  if (high < 1 && middleOf(low, high) <= 1 - smallest) return 'lower';
  return null;
}

function middleOf(low, high) {
  return (low + high) / 2;
}
