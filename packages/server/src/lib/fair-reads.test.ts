import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { isCrowded, nextRead, turn } from './fair-reads.ts';

/** Calls `wait` for each, and tells in which turn of the event loop they went on. */
async function turnsOf(waits: ((resume: () => void) => void)[]): Promise<number[]> {
  let now = 0;
  const seen: number[] = waits.map(() => Number.NaN);
  for (const [n, wait] of waits.entries())
    wait(() => {
      seen[n] = now;
    });
  while (seen.some(Number.isNaN)) {
    now++;
    await nextTurn();
  }
  return seen;
}
const yielding = (resume: () => void) => nextRead(resume, true);
const reading = (resume: () => void) => nextRead(resume, false);
const computing = (resume: () => void) => void turn().then(resume);

it('a large answer leaves two turns to requests with small ones, and a stream of the service none', async () => {
  expect(await turnsOf([yielding])).toEqual([3]);
  expect(await turnsOf([reading])).toEqual([1]);
});

it('a computation does not wait for a large answer', async () => {
  expect(await turnsOf([yielding, computing])).toEqual([3, 1]);
});

it('two large answers leave out the same turns', async () => {
  expect(await turnsOf([yielding, yielding])).toEqual([3, 4]);
});

it('where several wait, one reads on in each turn', async () => {
  const [first, ...others] = await turnsOf([yielding, yielding, yielding, yielding, yielding]);
  expect(first).toBe(1);
  expect(others.slice(0, 2)).toEqual([2, 3]);
});

it('it is crowded only while several wait', async () => {
  const waiting = turnsOf([reading, reading, reading]);
  expect(isCrowded()).toBe(true);
  await waiting;
  expect(isCrowded()).toBe(false);
});
