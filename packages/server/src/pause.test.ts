import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { within } from './pause.ts';

const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;

describe('within', () => {
  it('gives the answer, and leaves no timer behind', async () => {
    const before = timers();
    expect(await within(60_000, Promise.resolve('answer'), 'late')).toBe('answer');
    expect(timers()).toBe(before);
  });

  it('says so if it takes longer', async () => {
    const answered = sleep(300, 'answer');
    expect(await within(5, answered, 'late')).toBe('late');
    expect(await answered).toBe('answer');
  });

  it('fails with what it waits for, and leaves no timer behind', async () => {
    const before = timers();
    await expect(within(60_000, Promise.reject(new Error('broken')), null)).rejects.toThrow('broken');
    expect(timers()).toBe(before);
  });
});
