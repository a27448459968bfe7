import { expect, it } from 'vitest';
import {
  canRedo,
  canUndo,
  countOf,
  emptyHistory,
  insertRows,
  redo,
  resolve,
  setCells,
  stagedOf,
  toggleDeleted,
  undo,
} from './staged.ts';

const row = { key: '[1]', values: { id: '1', name: 'Tea', data: { a: 1 } } };

it('an edit is staged with the value that was there, and undone and redone', () => {
  const edited = setCells(emptyHistory, [{ row, column: 'name', value: 'Mate' }]);
  expect(stagedOf(edited).changed.get('[1]')).toEqual({ before: row.values, set: { name: 'Mate' } });
  const undone = undo(edited);
  expect(countOf(stagedOf(undone))).toBe(0);
  expect([canUndo(undone), canRedo(undone)]).toEqual([false, true]);
  expect(stagedOf(redo(undone))).toEqual(stagedOf(edited));
});

it('a value that returns to the old one is no change', () => {
  const there = setCells(emptyHistory, [{ row, column: 'data', value: { a: 2 } }]);
  const back = setCells(there, [{ row, column: 'data', value: { a: 1 } }]);
  expect(countOf(stagedOf(back))).toBe(0);
});

it('a paste of many cells is one step', () => {
  const edits = ['name', 'note'].map((column) => ({ row, column, value: 'x' }));
  const pasted = setCells(emptyHistory, edits);
  expect(countOf(stagedOf(pasted))).toBe(1);
  expect(countOf(stagedOf(undo(pasted)))).toBe(0);
});

it('an edit after undo drops what was undone', () => {
  const first = setCells(emptyHistory, [{ row, column: 'name', value: 'a' }]);
  const other = setCells(undo(first), [{ row, column: 'name', value: 'b' }]);
  expect(canRedo(other)).toBe(false);
  expect(stagedOf(other).changed.get('[1]')?.set).toEqual({ name: 'b' });
});

it('a deleted row remembers what was read, not what was edited, and can be kept after all', () => {
  const edited = setCells(emptyHistory, [{ row, column: 'name', value: 'x' }]);
  const deleted = toggleDeleted(edited, [row]);
  expect(stagedOf(deleted).deleted.get('[1]')).toEqual(row.values);
  expect(stagedOf(deleted).changed.size).toBe(0);
  expect(countOf(stagedOf(toggleDeleted(deleted, [row])))).toBe(0);
});

it('new rows have keys of their own, are edited, and vanish when they are deleted', () => {
  const inserted = insertRows(emptyHistory, [{}, { name: 'b' }]);
  const [first, second] = [...stagedOf(inserted).inserted].map(([key, values]) => ({ key, values }));
  if (!first || !second) throw new Error('two rows were inserted');
  const edited = setCells(inserted, [{ row: first, column: 'name', value: 'a' }]);
  expect([...stagedOf(edited).inserted.values()]).toEqual([{ name: 'a' }, { name: 'b' }]);
  expect([...stagedOf(toggleDeleted(edited, [second])).inserted.values()]).toEqual([{ name: 'a' }]);
  expect(insertRows(undo(inserted), [{}]).nextNew).toBe(4);
});

it('a row that somebody else changed: theirs, mine and drop, each one step', () => {
  const edited = setCells(emptyHistory, [
    { row, column: 'name', value: 'Mate' },
    { row, column: 'data', value: { a: 2 } },
  ]);
  const theirs = { ...row.values, name: 'Chai' };
  const conflict = { key: row.key, columns: ['name'], theirs, expected: theirs };
  const changedBy = (resolution: 'theirs' | 'mine' | 'drop') =>
    stagedOf(resolve(edited, conflict, resolution)).changed.get(row.key);
  expect(changedBy('theirs')).toEqual({ before: theirs, set: { data: { a: 2 } } });
  expect(changedBy('mine')).toEqual({ before: theirs, set: { name: 'Mate', data: { a: 2 } } });
  expect(changedBy('drop')).toBeUndefined();
  expect(stagedOf(undo(resolve(edited, conflict, 'drop')))).toEqual(stagedOf(edited));
});

it('a deletion and a row that is gone', () => {
  const marked = toggleDeleted(emptyHistory, [row]);
  const theirs = { ...row.values, name: 'Chai' };
  const changed = { key: row.key, columns: ['name'], theirs, expected: theirs };
  expect(stagedOf(resolve(marked, changed, 'mine')).deleted.get(row.key)).toEqual(theirs);
  expect(countOf(stagedOf(resolve(marked, changed, 'theirs')))).toBe(0);
  const edited = setCells(emptyHistory, [{ row, column: 'name', value: 'Mate' }]);
  const gone = { key: row.key, columns: [], theirs: null, expected: {} };
  const again = { ...row.values, name: 'Mate' };
  const { changed: none, inserted } = stagedOf(resolve(edited, gone, 'mine', again));
  expect([none.size, [...inserted.values()]]).toEqual([0, [again]]);
});
