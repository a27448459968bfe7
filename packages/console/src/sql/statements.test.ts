import { expect, it } from 'vitest';
import { effectOf, firstWord, splitStatements, statementAt } from './statements.ts';

it('splits at semicolons that end a statement, and at no others', () => {
  const text = `select ';' as a, "b;c"; -- no; end
do $x$ begin perform 1; end $x$; /* a; /* b; */ c; */ select e'\\';' ;
select 2`;
  expect(splitStatements(text).map((statement) => statement.text)).toEqual([
    `select ';' as a, "b;c"`,
    'do $x$ begin perform 1; end $x$',
    `select e'\\';'`,
    'select 2',
  ]);
});

it('a parameter such as $1 is no dollar quote', () => {
  expect(splitStatements('select $1; select $2')).toHaveLength(2);
});

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

it('the first word comes after comments', () => {
  expect(firstWord('/* x */ -- y\n(select')).toBe('');
  expect(firstWord('/* x */ -- y\nUPDATE t')).toBe('update');
});
