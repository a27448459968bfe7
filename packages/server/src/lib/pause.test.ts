import { getEventListeners } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { pause, unlessFailed, within } from './pause.ts';

describe('pause', () => {
  it('ends with its time, or with the first of its signals, and leaves nothing at any of them', async () => {
    const [lasting, woken] = [new AbortController(), new AbortController()];
    await pause(1, lasting.signal, woken.signal);
    const pausing = pause(60_000, lasting.signal, woken.signal);
    expect(getEventListeners(lasting.signal, 'abort')).toHaveLength(1);
    woken.abort();
    await pausing;
    expect(getEventListeners(lasting.signal, 'abort')).toEqual([]);
    await pause(60_000, lasting.signal, woken.signal);
    lasting.abort();
    await pause(60_000, lasting.signal);
  });
});

describe('unlessFailed', () => {
  const open = () => {
    let fail: (error: Error) => void = () => {};
    const unless = unlessFailed(
      new Promise<never>((_, reject) => {
        fail = reject;
      }),
    );
    return { unless, fail };
  };

  it('gives what the work gives, and fails as it does', async () => {
    const { unless, fail } = open();
    expect(await unless(Promise.resolve(1))).toBe(1);
    await expect(unless(Promise.reject(new Error('of the work')))).rejects.toThrow('of the work');
    // Nobody waits any more.
    fail(new Error('lasting'));
    await nextTurn();
  });

  it('fails all that wait, and all that come later', async () => {
    const { unless, fail } = open();
    const never = new Promise<never>(() => {});
    const waiting = [unless(never), unless(never)];
    fail(new Error('lasting'));
    for (const one of waiting) await expect(one).rejects.toThrow('lasting');
    await expect(unless(never)).rejects.toThrow('lasting');
    await expect(unless(Promise.reject(new Error('of the work')))).rejects.toThrow('lasting');
  });
});

describe('within', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('gives the answer, and leaves no timer behind', async () => {
    const waiting = within(1_000, Promise.resolve('answer'), 'late');
    expect(vi.getTimerCount()).toBe(1);
    expect(await waiting).toBe('answer');
    expect(vi.getTimerCount()).toBe(0);
  });

  it('says so if it takes longer', async () => {
    const waiting = within(1_000, new Promise(() => {}), 'late');
    vi.advanceTimersByTime(999);
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(1);
    expect(await waiting).toBe('late');
    expect(vi.getTimerCount()).toBe(0);
  });

  it('fails with what it waits for, and leaves no timer behind', async () => {
    const waiting = within(1_000, Promise.reject(new Error('broken')), null);
    await expect(waiting).rejects.toThrow('broken');
    expect(vi.getTimerCount()).toBe(0);
  });
});
