// Random choices that can be made again: a failure names its seed, and ROWHOUSE_TEST_SEED repeats it.

export const seed = Number(process.env.ROWHOUSE_TEST_SEED ?? 20261115);

export type Random = { below(n: number): number; chance(p: number): boolean; pick<T>(from: readonly T[]): T };

/** mulberry32: small, and the same numbers for the same seed everywhere. */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (n: number) => Math.floor(next() * n);
  return { below, chance: (p) => next() < p, pick: (from) => from[below(from.length)] as never };
}
