// The selected range of a grid: an anchor where it began and a focus where it ends. Pure, so that every key is tested.
export type Cell = { row: number; column: number };
export type Selection = { anchor: Cell; focus: Cell };
export type Rect = { top: number; left: number; bottom: number; right: number };
export type Size = { rows: number; columns: number };

export const startSelection: Selection = { anchor: { row: 0, column: 0 }, focus: { row: 0, column: 0 } };

export function rectOf({ anchor, focus }: Selection): Rect {
  return {
    top: Math.min(anchor.row, focus.row),
    bottom: Math.max(anchor.row, focus.row),
    left: Math.min(anchor.column, focus.column),
    right: Math.max(anchor.column, focus.column),
  };
}

export function contains(rect: Rect, row: number, column: number): boolean {
  return row >= rect.top && row <= rect.bottom && column >= rect.left && column <= rect.right;
}

export function select(cell: Cell): Selection {
  return { anchor: cell, focus: cell };
}

export function extendTo(selection: Selection, focus: Cell): Selection {
  return { anchor: selection.anchor, focus };
}

export function selectRows(from: number, to: number, { columns }: Size): Selection {
  return { anchor: { row: from, column: 0 }, focus: { row: to, column: Math.max(0, columns - 1) } };
}

export function selectAll(size: Size): Selection {
  return selectRows(0, Math.max(0, size.rows - 1), size);
}

export function clampSelection({ anchor, focus }: Selection, size: Size): Selection {
  return { anchor: clamp(anchor, size), focus: clamp(focus, size) };
}

export type Key = { key: string; shift: boolean; ctrl: boolean };

/** The selection after a key of the ARIA grid pattern, or null for any other key. */
export function moveSelection(
  selection: Selection,
  pressed: Key,
  size: Size,
  pageRows: number,
): Selection | null {
  const to = target(selection.focus, pressed, size, pageRows);
  if (!to) return null;
  const focus = clamp(to, size);
  return pressed.shift && pressed.key !== 'Tab' ? extendTo(selection, focus) : select(focus);
}

function target({ row, column }: Cell, { key, ctrl, shift }: Key, size: Size, pageRows: number): Cell | null {
  const lastRow = size.rows - 1;
  const lastColumn = size.columns - 1;
  switch (key) {
    case 'ArrowUp':
      return { row: ctrl ? 0 : row - 1, column };
    case 'ArrowDown':
      return { row: ctrl ? lastRow : row + 1, column };
    case 'ArrowLeft':
      return { row, column: ctrl ? 0 : column - 1 };
    case 'ArrowRight':
      return { row, column: ctrl ? lastColumn : column + 1 };
    case 'PageUp':
      return { row: row - pageRows, column };
    case 'PageDown':
      return { row: row + pageRows, column };
    case 'Home':
      return { row: ctrl ? 0 : row, column: 0 };
    case 'End':
      return { row: ctrl ? lastRow : row, column: lastColumn };
    case 'Tab': {
      const next = column + (shift ? -1 : 1);
      if (next < 0) return row > 0 ? { row: row - 1, column: lastColumn } : null;
      if (next > lastColumn) return row < lastRow ? { row: row + 1, column: 0 } : null;
      return { row, column: next };
    }
    default:
      return null;
  }
}

function clamp({ row, column }: Cell, { rows, columns }: Size): Cell {
  return {
    row: Math.max(0, Math.min(row, rows - 1)),
    column: Math.max(0, Math.min(column, columns - 1)),
  };
}
