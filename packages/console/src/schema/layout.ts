// Where the tables of the diagram stand: a table is to the right of those that it refers to, so that lines go one way.
import type { Table } from '../api/queries.ts';

export type Box = { key: string; table: Table; x: number; y: number; height: number };
export type Line = { key: string; from: { x: number; y: number }; to: { x: number; y: number } };
export type Layout = { boxes: Box[]; lines: Line[]; width: number; height: number };

export const boxWidth = 240;
export const headHeight = 38;
export const columnHeight = 26;
/** Further columns are counted, not drawn. */
export const columnsMax = 14;
const gapX = 90;
const gapY = 28;

export const keyOf = ({ schema, name }: { schema: string; name: string }) => `${schema}.${name}`;

export function layoutTables(tables: readonly Table[]): Layout {
  const levels = levelsOf(tables);
  const heights = new Map<number, number>();
  const boxes = [...tables]
    .sort((a, b) => b.references.length - a.references.length || keyOf(a).localeCompare(keyOf(b)))
    .map((table) => {
      const level = levels.get(keyOf(table)) ?? 0;
      const y = heights.get(level) ?? 0;
      const height = headHeight + Math.min(table.columns.length, columnsMax + 1) * columnHeight;
      heights.set(level, y + height + gapY);
      return { key: keyOf(table), table, x: level * (boxWidth + gapX), y, height };
    });
  return {
    boxes,
    lines: linesOf(boxes),
    width: Math.max(0, ...boxes.map(({ x }) => x + boxWidth)),
    height: Math.max(0, ...boxes.map(({ y, height }) => y + height)),
  };
}

/** The longest way to a table without references. References in a circle count once. */
function levelsOf(tables: readonly Table[]): Map<string, number> {
  const byKey = new Map(tables.map((table) => [keyOf(table), table]));
  const levels = new Map<string, number>();
  const visit = (key: string, path: ReadonlySet<string>): number => {
    const known = levels.get(key);
    if (known !== undefined) return known;
    const targets = (byKey.get(key)?.references ?? [])
      .map(({ target }) => keyOf(target))
      .filter((target) => byKey.has(target) && !path.has(target) && target !== key);
    const inside = new Set(path).add(key);
    const level = targets.length === 0 ? 0 : Math.max(...targets.map((target) => visit(target, inside))) + 1;
    levels.set(key, level);
    return level;
  };
  for (const table of tables) visit(keyOf(table), new Set());
  return levels;
}

function linesOf(boxes: readonly Box[]): Line[] {
  const byKey = new Map(boxes.map((box) => [box.key, box]));
  return boxes.flatMap((box) =>
    box.table.references.flatMap(({ columns, target, target_columns }, index) => {
      const other = byKey.get(keyOf(target));
      if (!other) return [];
      const isBeyond = other.x >= box.x;
      const from = { x: box.x + (isBeyond ? boxWidth : 0), y: box.y + rowOf(box.table, columns[0]) };
      const to = { x: other.x + boxWidth, y: other.y + rowOf(other.table, target_columns[0]) };
      return [{ key: `${box.key} ${index}`, from, to }];
    }),
  );
}

function rowOf(table: Table, column: string | undefined): number {
  const at = table.columns.findIndex(({ name }) => name === column);
  return headHeight + (Math.min(Math.max(at, 0), columnsMax) + 0.5) * columnHeight;
}
