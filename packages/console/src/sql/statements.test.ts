import { expect, it } from 'vitest';
import { effectOf, statementAt } from './statements.ts';

it('finds the statement at the cursor', () => {
  const text = 'select 1;\n\nselect 2;\n';
  expect(statementAt(text, 3)?.text).toBe('select 1');
  expect(statementAt(text, 12)?.text).toBe('select 2');
  expect(statementAt(text, text.length)?.text).toBe('select 2');
  expect(statementAt('  ', 1)).toBeNull();
});

it.each([
  ['select 1', 'reads'],
  ['-- all\n  DELETE from t', 'changes-rows'],
  ['with x as (delete from t returning *) select * from x', 'changes-rows'],
  ['with x as (select 1) select * from x', 'reads'],
  ["with x as (select 'delete') select * from x", 'reads'],
  ['insert into t values (1)', 'reads'],
  ['insert into t values (1) on conflict (id) do\n update set n = 1', 'changes-rows'],
  ['explain delete from t', 'reads'],
  ['explain (analyze, buffers) delete from t', 'changes-rows'],
  ['do $$ begin delete from t; end $$', 'reads'],
  ['drop table t', 'changes-schema'],
  ['create table t ()', 'reads'],
])('%j: %s', (sql, effect) => {
  expect(effectOf(sql)).toBe(effect);
});
