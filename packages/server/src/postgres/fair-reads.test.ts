import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { isCrowded, nextRead, turn } from './fair-reads.ts';

/** In which turn of the event loop each of these reads on. */
async function turnsOf(count: number): Promise<number[]> {
  let now = 0;
  const seen: number[] = [];
  for (let n = 0; n < count; n++) nextRead(() => seen.push(now));
  while (seen.length < count) {
    await nextTurn();
    now++;
  }
  return seen;
}

it('a large result alone leaves turns to requests with small ones', async () => {
  const [first = 0] = await turnsOf(1);
  expect(first).toBeGreaterThanOrEqual(2);
  expect(first).toBeLessThanOrEqual(4);
});

it('where several wait, one reads on in each turn until few are left', async () => {
  const turns = await turnsOf(6);
  expect(new Set(turns).size).toBe(6);
  expect(turns.slice(0, 4).map((seen, n) => seen - (turns[0] ?? 0) - n)).toEqual([0, 0, 0, 0]);
  expect(isCrowded()).toBe(false);
});

it('a computation leaves out none, and comes after those that wait', async () => {
  const order: string[] = [];
  nextRead(() => order.push('read'));
  await turn().then(() => order.push('computed'));
  expect(order).toEqual(['read', 'computed']);
});
