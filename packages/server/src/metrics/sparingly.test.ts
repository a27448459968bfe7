import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { sparingly } from './sparingly.ts';

/** Each read takes `tookMs` of a clock of its own, and returns how many there were. */
function reads(tookMs: () => number) {
  let [time, count] = [0, 0];
  const read = sparingly(
    async () => {
      time += tookMs();
      count++;
      if (tookMs() < 0) throw new Error('cannot be read');
      return count;
    },
    () => time,
  );
  const wait = (ms: number) => {
    time += ms;
  };
  return { read, wait, count: () => count };
}

it('a fast read is made each time, and shared by callers at the same time', async () => {
  const { read, count } = reads(() => 5);
  expect(await Promise.all([read(), read()])).toEqual([1, 1]);
  expect(await read()).toBe(2);
  expect(count()).toBe(2);
});

it('a slow read is made rarely, and nobody waits for the second', async () => {
  const { read, wait, count } = reads(() => 300);
  expect(await read()).toBe(1);
  wait(29_000);
  expect(await read()).toBe(1);
  expect(count()).toBe(1);
  wait(1_000);
  expect(await read()).toBe(1);
  await nextTurn();
  expect(await read()).toBe(2);
  expect(count()).toBe(2);
});

it('the value of an old success does not hide a failure', async () => {
  let took = 300;
  const { read, wait } = reads(() => took);
  expect(await read()).toBe(1);
  took = -1;
  wait(60_000);
  expect(await read()).toBe(1);
  await nextTurn();
  await expect(read()).rejects.toThrow('cannot be read');
});
