import { describe, expect, it } from 'vitest';
import { createLedger, slopeOf } from './soak-ledger.mjs';

const rowsOf = (...groups) => new Map(groups.flatMap(({ rows }) => rows).map(({ id, body }) => [id, body]));

describe('the ledger of the soak test', () => {
  it('reports no problem when every acknowledgement holds', () => {
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

  it('reports lost rows, refused rows that exist, partial transactions and rows that were never sent', () => {
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
      'a: acknowledged but lost: 1 of rows 1, 2',
      'a: refused but stored: 2 of rows 3, 4',
      'a: transaction stored in part: 1 of rows 5, 6',
      'a: row 999 was never sent',
    ]);
  });

  it('reports a row with the wrong content, and checks only the given project', () => {
    const ledger = createLedger();
    const group = ledger.begin('a', 1);
    ledger.begin('b', 1).outcome = 'kept';
    expect(ledger.check('a', new Map([[group.rows[0].id, 'other']]))).toEqual([
      'a: row 1 has the wrong content',
    ]);
  });
});

it('slopeOf returns the rise per minute, and 0 for a single point', () => {
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
