import { expect, it } from 'vitest';
import { chartColumns, chartData, firstChoice } from './chart-data.ts';

const result = {
  columns: ['day', 'name', 'sold', 'price'],
  types: ['date', 'text', 'int8', 'numeric'],
  rows: [
    { day: '2026-01-03', name: 'Mate', sold: '3', price: '1.50' },
    { day: '2026-01-01', name: 'Chai', sold: '1', price: 'NaN' },
    { day: null, name: null, sold: '9', price: '9' },
    { day: '2026-01-02', name: 'Oolong', sold: null, price: '2' },
  ],
};

it('only numbers are offered as y, and the first choice is the first column against a number', () => {
  expect(chartColumns(result)).toEqual({ x: result.columns, y: ['sold', 'price'] });
  expect(firstChoice(result)).toEqual({ x: 'day', y: ['sold'] });
  expect(firstChoice({ columns: ['n'], types: ['int4'] })).toEqual({ x: 'n', y: ['n'] });
  expect(firstChoice({ columns: ['t'], types: ['text'] })).toBeNull();
});

it('times are sorted, rows without x are left out, and what is no number is a gap', () => {
  const day = (text: string) => Date.parse(text) / 1000;
  expect(chartData(result, 'day', ['sold', 'price'])).toEqual({
    kind: 'time',
    x: [day('2026-01-01'), day('2026-01-02'), day('2026-01-03')],
    series: [
      [1, null, 3],
      [null, 2, 1.5],
    ],
    labels: ['2026-01-01', '2026-01-02', '2026-01-03'],
  });
});

it('texts stand side by side in the order of the rows', () => {
  const data = chartData(result, 'name', ['sold']);
  expect(data).toEqual({
    kind: 'order',
    x: [0, 1, 2, 3],
    series: [[3, 1, 9, null]],
    labels: ['Mate', 'Chai', 'NULL', 'Oolong'],
  });
});
