import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { openNotices } from './notices.ts';
import { StorageError } from './storage/storage.ts';

const minute = 60_000;
const absent = new StorageError('unmarked', 'There is no marker.');
const full = new StorageError('full', 'The disk is full.');

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function open() {
  const told: (string | null)[] = [];
  const notices = openNotices('one', (_server, problem) => told.push(problem?.reason ?? null), Date.now);
  return { told, ...notices };
}

it('a repository that is missing is told at once, and another problem if it lasts', () => {
  const { told, record } = open();
  record(full);
  vi.advanceTimersByTime(4 * minute);
  record(null);
  vi.advanceTimersByTime(60 * minute);
  expect(told).toEqual([]);
  record(full);
  vi.advanceTimersByTime(6 * minute);
  expect(told).toEqual(['The disk is full.']);
  record(null);
  expect(told).toEqual(['The disk is full.', null]);
  vi.advanceTimersByTime(60 * minute);
  record(full);
  record(absent);
  expect(told.at(-1)).toBe('There is no marker.');
});

it('what comes and goes is told once an hour', () => {
  const { told, record } = open();
  for (let n = 0; n < 120; n++) {
    record(absent);
    vi.advanceTimersByTime(minute / 2);
    record(null);
    vi.advanceTimersByTime(minute / 2);
  }
  expect(told).toEqual(['There is no marker.', null, 'There is no marker.', null]);
});

it('a process that has lost its role tells nothing more', () => {
  const { told, record, stop } = open();
  record(full);
  stop();
  vi.advanceTimersByTime(60 * minute);
  expect(told).toEqual([]);
});
