import { expect, it } from 'vitest';
import { filterParam, orderParam, readFilter, readSort, writeFilter, writeSort } from './filters.ts';

it.each([
  [{ column: 'price', operator: 'gte', value: '10' }, ['"price"', 'gte.10']],
  [{ column: 'limit', operator: 'eq', value: '5' }, ['"limit"', 'eq.5']],
  [{ column: 'a"b\\', operator: 'is.null', value: '' }, ['"a\\"b\\\\"', 'is.null']],
  [{ column: 'name', operator: 'ilike', value: 'tea' }, ['"name"', 'ilike.*tea*']],
  [{ column: 'name', operator: 'ilike', value: 'tea*' }, ['"name"', 'ilike.tea*']],
  [{ column: 'id', operator: 'in', value: '1, 2' }, ['"id"', 'in.("1","2")']],
] as const)('%j is a parameter of the API', (filter, param) => {
  expect(filterParam(filter)).toEqual(param);
});

it('survives the address of the page', () => {
  const filter = { column: 'a.b"c', operator: 'eq', value: '&x=1' } as const;
  expect(readFilter(writeFilter(filter))).toEqual(filter);
  expect(readSort(writeSort({ column: 'x', isDescending: true }))).toEqual({
    column: 'x',
    isDescending: true,
  });
});

it.each(['', '{}', '["a"]', '["a","drop","x"]', '["a","eq",1]'])(
  'a damaged address (%j) is no filter',
  (text) => {
    expect(readFilter(text)).toBeNull();
  },
);

it('orders by several columns', () => {
  expect(
    orderParam([
      { column: 'a', isDescending: true },
      { column: 'b', isDescending: false },
    ]),
  ).toBe('"a".desc,"b".asc');
});
