import { expect, it } from 'vitest';
import {
  clampSelection,
  contains,
  extendTo,
  moveSelection,
  rectOf,
  type Selection,
  select,
  selectAll,
} from './selection.ts';

const size = { rows: 100, columns: 5 };
const at = (row: number, column: number) => select({ row, column });
const press = (selection: Selection, key: string, { shift = false, ctrl = false } = {}) =>
  moveSelection(selection, { key, shift, ctrl }, size, 20);

it.each([
  ['ArrowDown', {}, 11, 2],
  ['ArrowUp', {}, 9, 2],
  ['ArrowLeft', {}, 10, 1],
  ['ArrowRight', {}, 10, 3],
  ['ArrowDown', { ctrl: true }, 99, 2],
  ['ArrowLeft', { ctrl: true }, 10, 0],
  ['PageDown', {}, 30, 2],
  ['PageUp', {}, 0, 2],
  ['Home', {}, 10, 0],
  ['End', { ctrl: true }, 99, 4],
  ['Tab', {}, 10, 3],
])('%s with %o moves the focus', (key, keys, row, column) => {
  expect(press(at(10, 2), key, keys)).toEqual(at(row, column));
});

it('shift keeps the anchor and extends the range', () => {
  const range = press(at(10, 2), 'ArrowDown', { shift: true });
  expect(range).toEqual({ anchor: { row: 10, column: 2 }, focus: { row: 11, column: 2 } });
  expect(rectOf(extendTo(at(10, 2), { row: 5, column: 4 }))).toEqual({
    top: 5,
    bottom: 10,
    left: 2,
    right: 4,
  });
});

it('the focus stays inside the grid', () => {
  expect(press(at(0, 0), 'ArrowUp')).toEqual(at(0, 0));
  expect(press(at(99, 4), 'PageDown')).toEqual(at(99, 4));
  expect(clampSelection(at(500, 9), { rows: 3, columns: 2 })).toEqual(at(2, 1));
});

it('Tab goes on to the next row, and leaves the grid after the last cell', () => {
  expect(press(at(10, 4), 'Tab')).toEqual(at(11, 0));
  expect(press(at(99, 4), 'Tab')).toBeNull();
  expect(press(at(0, 0), 'Tab', { shift: true })).toBeNull();
});

it('other keys do not move', () => {
  expect(press(at(1, 1), 'x')).toBeNull();
});

it('everything can be selected', () => {
  const rect = rectOf(selectAll(size));
  expect(contains(rect, 99, 4)).toBe(true);
  expect(contains(rect, 100, 0)).toBe(false);
});
