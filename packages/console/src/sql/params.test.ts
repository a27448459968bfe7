import { expect, it } from 'vitest';
import { parametersOf, paramValues } from './params.ts';

it('finds parameters outside of texts, comments, names and dollar quotes', () => {
  expect(parametersOf('select $2, $1::int, $2')).toEqual(['1', '2']);
  expect(parametersOf(`select '$1', "$2", $$ $3 $$, a$4 -- $5`)).toEqual([]);
});

it('gives values in order, and NULL where there is none', () => {
  expect(paramValues('select $1, $3', { 1: '', 3: 'x' })).toEqual(['', null, 'x']);
  expect(paramValues('select 1', { 1: 'unused' })).toEqual([]);
});
