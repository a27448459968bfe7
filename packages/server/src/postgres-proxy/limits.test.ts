import { expect, it, onTestFinished, vi } from 'vitest';
import { isLoopback, plainAddress } from '../settings/loopback.ts';
import { limitKey } from './client-address.ts';
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

it('takes a /64 of IPv6 for one client, and recognizes loopback addresses', () => {
  expect(limitKey('192.0.2.1')).toBe('192.0.2.1');
  expect(limitKey('2001:db8:1:2:3:4:5:6')).toBe('2001:db8:1:2');
  expect(limitKey('2001:db8::5%eth0')).toBe('2001:db8:0:0');
  expect(limitKey('::1')).toBe('0:0:0:0');
  expect(plainAddress('::ffff:127.0.0.2')).toBe('127.0.0.2');
  expect(['127.0.0.1', '127.9.9.9', '::1', 'localhost'].map(isLoopback)).toEqual([true, true, true, true]);
  expect(['10.0.0.1', '::2', '127.example.com', ''].map(isLoopback)).toEqual([false, false, false, false]);
});
