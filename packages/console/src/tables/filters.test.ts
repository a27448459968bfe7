import { expect, it } from 'vitest';
import {
  filterParam,
  groupParam,
  orderParam,
  readFilters,
  readSort,
  writeFilters,
  writeSort,
} from './filters.ts';

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
  const other = { column: 'd', operator: 'is.null', value: '' } as const;
  for (const group of [[filter], [filter, other]]) expect(readFilters(writeFilters(group))).toEqual(group);
  expect(readSort(writeSort({ column: 'x', isDescending: true }))).toEqual({
    column: 'x',
    isDescending: true,
  });
});

it('several conditions are one parameter, in which no value can end the group', () => {
  const group = [
    { column: 'name', operator: 'eq', value: 'a),b' },
    { column: 'id', operator: 'in', value: '1, 2' },
    { column: 'note', operator: 'is.null', value: '' },
    { column: 'name', operator: 'ilike', value: 'te"a' },
  ] as const;
  expect(groupParam(group)).toEqual([
    'or',
    '("name".eq."a),b","id".in.("1","2"),"note".is.null,"name".ilike."*te\\"a*")',
  ]);
  expect(groupParam(group.slice(0, 1))).toEqual(['"name"', 'eq.a),b']);
});

it.each(['', '{}', '[]', '["a"]', '["a","drop","x"]', '["a","eq",1]', '[["a","eq","1"],["b"]]', '[[]]'])(
  'a damaged address (%j) is no filter',
  (text) => {
    expect(readFilters(text)).toBeNull();
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
