import { expect, it } from 'vitest';
import { firstWord, splitStatements } from './statements.ts';

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

it('the body of a function in standard SQL is part of its statement', () => {
  const body = `create function f(n int) returns int begin atomic select case when n > 1 then 1; else 2 end; select begin_ from e; end`;
  expect(splitStatements(`${body}; begin; select 'end'; end`).map(({ text }) => text)).toEqual([
    body,
    'begin',
    "select 'end'",
    'end',
  ]);
});

it('the first word comes after comments', () => {
  expect(firstWord('/* x */ -- y\n(select')).toBe('');
  expect(firstWord('/* x */ -- y\nUPDATE t')).toBe('update');
});
