import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { within } from './pause.ts';

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
