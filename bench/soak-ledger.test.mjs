import { describe, expect, it } from 'vitest';
import { createLedger, slopeOf } from './soak-ledger.mjs';

const rowsOf = (...groups) => new Map(groups.flatMap(({ rows }) => rows).map(({ id, body }) => [id, body]));

describe('the ledger of the soak', () => {
  it('finds nothing wrong where every promise was kept', () => {
    const ledger = createLedger();
    const kept = ledger.begin('a', 3);
    kept.outcome = 'kept';
    const refused = ledger.begin('a', 1);
    refused.outcome = 'refused';
    const made = ledger.begin('a', 2);
    ledger.begin('a', 2);
    expect(ledger.check('a', rowsOf(kept, made))).toEqual([]);
    expect(ledger.counts()).toEqual({ kept: 3, refused: 1, unknown: 4 });
  });

  it('finds what was lost, what was refused and is there, halves, and rows of nobody', () => {
    const ledger = createLedger();
    const groups = ['kept', 'refused', 'unknown'].map((outcome) => {
      const group = ledger.begin('a', 2);
      group.outcome = outcome;
      return group;
    });
    const found = rowsOf(...groups);
    found.delete(groups[0].rows[0].id);
    found.delete(groups[2].rows[1].id);
    found.set(999, 'x');
    expect(ledger.check('a', found)).toEqual([
      'a: acknowledged and lost, of rows 1, 2: 1',
      'a: refused and there all the same, of rows 3, 4: 2',
      'a: one half of a transaction, of rows 5, 6: 1',
      'a: row 999 was never sent',
    ]);
  });

  it('finds a row that holds something else, and looks at one project alone', () => {
    const ledger = createLedger();
    const group = ledger.begin('a', 1);
    ledger.begin('b', 1).outcome = 'kept';
    expect(ledger.check('a', new Map([[group.rows[0].id, 'other']]))).toEqual([
      'a: row 1 holds something else',
    ]);
  });
});

it('tells a slope', () => {
  expect(
    slopeOf([
      [0, 5],
      [1, 7],
      [2, 9],
    ]),
  ).toBeCloseTo(2);
  expect(
    slopeOf([
      [0, 5],
      [1, 5],
    ]),
  ).toBe(0);
  expect(slopeOf([[3, 5]])).toBe(0);
});
