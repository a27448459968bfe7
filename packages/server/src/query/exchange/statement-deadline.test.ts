import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Session } from '../../postgres/wire/session.ts';
import type { Reader } from './reader.ts';
import { StatementDeadline } from './statement-deadline.ts';

const second = 1_000;
const minute = 60 * second;
let terminated = 0;
let deadline: StatementDeadline;

beforeEach(() => {
  vi.useFakeTimers();
  terminated = 0;
  const session = { pid: 1, cancel: async () => {} } as unknown as Session;
  const reader = { startedAt: performance.now(), isGone: false } as Reader;
  deadline = new StatementDeadline(session, reader, 30 * second, () => {
    terminated++;
  });
});
afterEach(() => {
  deadline.end();
  vi.useRealTimers();
});

it('a reader that takes nothing for 30 seconds is given up', () => {
  deadline.pause();
  vi.advanceTimersByTime(29 * second);
  expect(terminated).toBe(0);
  vi.advanceTimersByTime(2 * second);
  expect([terminated, deadline.stoppedBy?.code]).toEqual([1, 'request_timeout']);
});

it('a reader that takes a little now and then is given up after an hour', () => {
  const trickle = (times: number) => {
    for (let n = 0; n < times; n++) {
      deadline.pause();
      vi.advanceTimersByTime(20 * second);
      deadline.resume();
    }
  };
  trickle(3 * 59);
  expect(deadline.isStopped).toBe(false);
  trickle(4);
  expect([terminated, deadline.stoppedBy?.code]).toEqual([1, 'request_timeout']);
});

it('waits of the reader are not part of the time of the statement', () => {
  deadline.pause();
  vi.advanceTimersByTime(25 * second);
  deadline.resume();
  vi.advanceTimersByTime(25 * second);
  expect(deadline.isStopped).toBe(false);
  vi.advanceTimersByTime(minute);
  expect(deadline.stoppedBy?.code).toBe('query_timeout');
});
