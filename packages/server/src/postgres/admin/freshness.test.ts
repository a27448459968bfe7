import { expect, it } from 'vitest';
import { openFreshness } from './freshness.ts';

const host = { host: 'h', port: 1 };

it('a standby is as fresh as the last time at which the primary had flushed no more than it has replayed', () => {
  let now = 0;
  const freshness = openFreshness(() => now);
  freshness.noteStandby(host, 100);
  expect(freshness.find(1_000_000), 'nothing to compare with').toBeNull();
  freshness.notePrimary(1_000, 100);
  freshness.notePrimary(2_000, 200);
  freshness.notePrimary(3_000, 300);
  freshness.noteStandby(host, 250);
  now = 3_500;
  expect(freshness.find(1_499)).toBeNull();
  expect(freshness.find(1_500)).toBe(host);
  // An idle primary: the position stays, the time goes on.
  freshness.noteStandby(host, 300);
  freshness.notePrimary(9_000, 300);
  freshness.noteStandby(host, 300);
  now = 9_100;
  expect(freshness.find(100)).toBe(host);
  freshness.forget(host);
  expect(freshness.find(1_000_000)).toBeNull();
});
