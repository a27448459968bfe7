import { expect, it } from 'vitest';
import { openAccountRates } from './account-rates.ts';
import type { Caller } from './caller.ts';

const caller = (accountId: string, maxPerSecond: number | null): Caller => ({
  ...({ kind: 'account', keyId: 'k', role: 'owner', projects: null } as const),
  accountId,
  maxPerSecond,
  isOperator: false,
  person: null,
  expiresAt: null,
});
const countOf = (admit: () => boolean, times: number) =>
  Array.from({ length: times }, admit).filter(Boolean).length;

it('admits the limit at once, then as many as the time allows, and does not count without a limit', () => {
  let at = 0;
  const rates = openAccountRates(() => at, 1);
  const [limited, free] = [caller('a', 10), caller('b', null)];
  expect(countOf(() => rates.admits(limited), 50)).toBe(10);
  expect(countOf(() => rates.admits(free), 50)).toBe(50);
  expect(countOf(() => rates.admits(caller('c', 10)), 50)).toBe(10);
  at = 500;
  expect(countOf(() => rates.admits(limited), 50)).toBe(5);
  at = 400;
  expect(countOf(() => rates.admits(limited), 50)).toBe(0);
  at = 60_000;
  expect(countOf(() => rates.admits(limited), 50)).toBe(10);
  expect(() => rates.require(limited)).toThrow(/10 requests a second/);
});

it('gives each process its share, and at least one request', () => {
  const rates = openAccountRates(() => 0, 4);
  expect(countOf(() => rates.admits(caller('a', 8)), 50)).toBe(2);
  expect(countOf(() => rates.admits(caller('b', 1)), 50)).toBe(1);
});
