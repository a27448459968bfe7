import { expect, it, onTestFinished, vi } from 'vitest';
import { openCounter, openQueue, openRate } from './limits.ts';

it('counts in total and for each address', () => {
  const counter = openCounter({ total: 3, perAddress: 2 });
  const leave = counter.enter('a');
  expect([counter.enter('a'), counter.enter('a')].map(Boolean)).toEqual([true, false]);
  expect([counter.enter('b'), counter.enter('c')].map(Boolean)).toEqual([true, false]);
  leave?.();
  leave?.();
  expect([counter.enter('c'), counter.enter('d')].map(Boolean)).toEqual([true, false]);
});

it('lets addresses take turns, and forgets those that give up', async () => {
  const queue = openQueue({ total: 1, perAddress: 1 });
  const { signal } = new AbortController();
  const order: string[] = [];
  const first = await queue.enter('a', signal);
  const enter = async (address: string, ended = signal) => {
    const leave = await queue.enter(address, ended);
    order.push(address);
    leave();
  };
  const gone = new AbortController();
  const waiting = [enter('a'), enter('a'), enter('b'), enter('c')];
  const givenUp = enter('d', gone.signal);
  gone.abort(new Error('late'));
  await expect(givenUp).rejects.toThrow('late');
  await expect(enter('e', gone.signal)).rejects.toThrow('late');
  first();
  await Promise.all(waiting);
  expect(order).toEqual(['a', 'b', 'c', 'a']);
});

it('lets an address with a penalty wait, and others not', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const queue = openQueue({ total: 1, perAddress: 1 });
  const { signal } = new AbortController();
  const order: string[] = [];
  const first = await queue.enter('a', signal);
  const enter = (address: string) =>
    queue.enter(address, signal).then((leave) => {
      order.push(address);
      leave();
    });
  const waiting = [enter('a'), enter('b')];
  first(500);
  first(500);
  await waiting[1];
  await vi.advanceTimersByTimeAsync(499);
  expect(order).toEqual(['b']);
  await vi.advanceTimersByTimeAsync(1);
  expect(order).toEqual(['b', 'a']);
});

it('limits a rate', () => {
  const rate = openRate({ total: 3, perAddress: 2 });
  expect(['a', 'a', 'a', 'b', 'b'].map(rate.take)).toEqual([true, true, false, true, false]);
});
