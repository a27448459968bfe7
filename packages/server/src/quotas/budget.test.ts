import { describe, expect, it } from 'vitest';
import { Budget } from './budget.ts';

const mb = 1024 * 1024;
const ceiling = 100 * mb;
/** Measured at 0 ms, with nothing else under way. */
const measured = (size: number, { others = false } = {}) => {
  const budget = new Budget();
  budget.note(budget.mark(0), size, !others);
  return budget;
};

describe('a budget', () => {
  it('is nothing before the first measurement', () => {
    expect(new Budget().take(1, ceiling, 0)).toBe(false);
  });

  it('is what is left below the ceiling, less what indexes and maps can add', () => {
    const budget = measured(90 * mb);
    // 10 MB less a sixteenth of 90 MB and 0.5 MB.
    expect(budget.take(4 * mb, ceiling, 1)).toBe(false);
    expect(budget.take(3 * mb, ceiling, 1)).toBe(true);
    expect(budget.take(1 * mb, ceiling, 1)).toBe(false);
  });

  it('is used up by inserts that have ended, until the next measurement', () => {
    const budget = measured(10 * mb);
    for (let n = 0; n < 24; n++) {
      expect(budget.take(mb, ceiling, 1)).toBe(true);
      budget.endGrant(mb);
    }
    expect(budget.take(mb, ceiling, 1)).toBe(false);
    budget.note(budget.mark(2), 10 * mb, true);
    expect(budget.take(mb, ceiling, 3)).toBe(true);
  });

  it('keeps what was in flight when the measurement began, and what began since', () => {
    const budget = measured(10 * mb);
    budget.take(10 * mb, ceiling, 1);
    const mark = budget.mark(2);
    budget.take(10 * mb, ceiling, 3);
    budget.endGrant(10 * mb);
    budget.note(mark, 10 * mb, true);
    expect(budget.take(5 * mb, ceiling, 4)).toBe(false);
    expect(budget.take(4 * mb, ceiling, 4)).toBe(true);
  });

  it('counts bounded inserts that are checked, too', () => {
    const budget = measured(10 * mb);
    budget.begin(20 * mb);
    budget.end(20 * mb);
    expect(budget.take(5 * mb, ceiling, 1)).toBe(false);
    expect(budget.take(4 * mb, ceiling, 1)).toBe(true);
  });

  it('does not count while something unbounded runs, nor afterwards, until a measurement begins', () => {
    const budget = measured(10 * mb);
    budget.begin(0);
    expect(budget.take(1, ceiling, 1)).toBe(false);
    const during = budget.mark(2);
    budget.end(0);
    budget.note(during, 10 * mb, true);
    expect(budget.take(1, ceiling, 3)).toBe(false);
    const after = budget.mark(4);
    budget.note(after, 10 * mb, true);
    expect(budget.take(1, ceiling, 5)).toBe(true);
  });

  it('does not count if something unbounded ran during the measurement', () => {
    const budget = measured(10 * mb);
    const mark = budget.mark(1);
    budget.begin(0);
    budget.end(0);
    budget.note(mark, 10 * mb, true);
    expect(budget.take(1, ceiling, 2)).toBe(false);
  });

  it('does not count while a backend is there that is not ours, nor when it is old', () => {
    expect(measured(10 * mb, { others: true }).take(1, ceiling, 1)).toBe(false);
    expect(measured(10 * mb).take(1, ceiling, 200)).toBe(true);
    expect(measured(10 * mb).take(1, ceiling, 201)).toBe(false);
  });

  it('tells what unchecked inserts can still add, and more: pages in advance', () => {
    const budget = measured(10 * mb);
    expect(budget.pending).toBe(0);
    budget.begin(mb);
    expect(budget.pending, 'a checked one').toBe(0);
    budget.take(2 * mb, ceiling, 1);
    expect(budget.pending).toBe(2.5 * mb);
    budget.endGrant(2 * mb);
    expect(budget.pending).toBe(0);
  });
});
