import { expect, it } from 'vitest';
import { isDue } from './drills.ts';

const at = (text: string) => Date.parse(`2026-11-${text}:00Z`);

it('a drill is due at night, once', () => {
  expect(isDue(at('15T02:00'), at('16T00:59'))).toBe(false);
  expect(isDue(at('15T02:00'), at('16T01:00'))).toBe(true);
  expect(isDue(at('16T01:05'), at('16T04:00'))).toBe(false);
  // Started in the evening: the first night is too early, the second is not.
  expect(isDue(at('15T20:00'), at('16T03:00'))).toBe(false);
  expect(isDue(at('15T20:00'), at('17T01:00'))).toBe(true);
});

it('a machine that sleeps at night has its drill later', () => {
  expect(isDue(at('15T02:00'), at('16T07:00'))).toBe(false);
  expect(isDue(at('15T02:00'), at('16T08:00'))).toBe(true);
});
