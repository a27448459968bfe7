import { loadModule, parseSync } from 'libpg-query';
import { beforeAll, describe, expect, it } from 'vitest';
import { findBoundedInsert } from './bounded-insert.ts';
import type { Node } from './references.ts';

beforeAll(() => loadModule());

const find = (text: string) => {
  const [first] = (parseSync(text) as { stmts: { stmt: { InsertStmt: Node } }[] }).stmts;
  return findBoundedInsert(first?.stmt.InsertStmt ?? {});
};

describe('an insert is bounded', () => {
  it.each([
    ['insert into t values ($1, $2)', { relation: '"t"', rows: 1, constantBytes: 0 }],
    ['insert into s.t (a, b) values ($1, default)', { relation: '"s"."t"', rows: 1, constantBytes: 0 }],
    ["insert into t (a) values ($1), ('äb'), (null)", { relation: '"t"', rows: 3, constantBytes: 11 }],
    ['insert into t values (-5, 1.25, true)', { relation: '"t"', rows: 1, constantBytes: 28 }],
    ['insert into t default values', { relation: '"t"', rows: 1, constantBytes: 0 }],
    [
      'insert into t as x (a) values ($1) on conflict do nothing',
      { relation: '"t"', rows: 1, constantBytes: 0 },
    ],
    [
      'insert into t values ($1) on conflict (a) do nothing returning id, *',
      { relation: '"t"', rows: 1, constantBytes: 0 },
    ],
  ])('%s', (text, expected) => {
    expect(find(text)).toEqual(expected);
  });
});

describe('an insert is not bounded', () => {
  it.each([
    ['rows of a query', 'insert into t select 1'],
    ['rows of a series', 'insert into t select n from generate_series(1, 9) as n'],
    ['a function', "insert into t values (repeat('x', 100))"],
    ['an operator', 'insert into t values ($1 || $2)'],
    ['a cast, whose result can be longer than its text', 'insert into t values ($1::numeric)'],
    ['a number with an exponent, which has more digits than its text', 'insert into t values (1e9999)'],
    ['a bit string', "insert into t values (B'1')"],
    ['a parameter that is stored twice', 'insert into t values ($1, $1)'],
    ['a subquery', 'insert into t values ((select 1))'],
    ['a WITH query', 'with x as (insert into u values (1)) insert into t values (1)'],
    ['an update of rows in conflict', 'insert into t values ($1) on conflict (a) do update set b = 1'],
    ['RETURNING with a function', 'insert into t values ($1) returning lower(a)'],
    ['RETURNING that can call a function', 'insert into t values ($1) returning t.a'],
    ['RETURNING of old rows', 'insert into t values ($1) returning with (old as o) a'],
    ['part of an array', 'insert into t (a[1]) values ($1)'],
    ['an overridden identity', 'insert into t overriding system value values ($1)'],
    ['another database', 'insert into d.s.t values ($1)'],
    ['ordered values', 'insert into t values ($1), ($2) order by 1'],
    ['limited values', 'insert into t values ($1), ($2) limit 1'],
  ])('with %s', (_why, text) => {
    expect(find(text)).toBeNull();
  });
});
