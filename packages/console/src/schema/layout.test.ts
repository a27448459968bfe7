import { expect, it } from 'vitest';
import type { Table } from '../api/queries.ts';
import { boxWidth, layoutTables } from './layout.ts';

function table(name: string, refersTo: string[] = []): Table {
  return {
    schema: 'public',
    name,
    columns: [{ name: 'id' }, ...refersTo.map((other) => ({ name: other }))],
    references: refersTo.map((other) => ({
      columns: [other],
      target: { schema: 'public', name: other },
      target_columns: ['id'],
    })),
  } as unknown as Table;
}

it('puts a table to the right of those that it refers to, and no box over another', () => {
  const { boxes, lines, width } = layoutTables([
    table('items', ['orders', 'teas']),
    table('orders', ['users']),
    table('users'),
    table('teas'),
  ]);
  const at = Object.fromEntries(boxes.map((box) => [box.table.name, box]));
  expect(at.users?.x).toBe(0);
  expect(at.teas?.x).toBe(0);
  expect(at.orders?.x).toBeGreaterThan(boxWidth);
  expect(at.items?.x).toBeGreaterThan((at.orders?.x ?? 0) + boxWidth);
  expect(lines).toHaveLength(3);
  expect(width).toBe((at.items?.x ?? 0) + boxWidth);
  for (const a of boxes)
    for (const b of boxes)
      if (a !== b && a.x === b.x) expect(a.y + a.height <= b.y || b.y + b.height <= a.y).toBe(true);
});

it('ends with references in a circle, to itself, and to tables that are not shown', () => {
  const { boxes, lines } = layoutTables([table('a', ['b', 'a', 'hidden']), table('b', ['a'])]);
  expect(boxes).toHaveLength(2);
  expect(lines).toHaveLength(3);
});
