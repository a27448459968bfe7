// Copy, paste and clear of the selected range.
import { rectOf, type Selection } from './selection.ts';
import type { GridEdit, GridSource } from './source.ts';
import { writeTsv } from './tsv.ts';
import { editText, kindOf } from './value.ts';

export function copyText(source: GridSource, selection: Selection): string {
  const { top, bottom, left, right } = rectOf(selection);
  const rows = [];
  for (let row = top; row <= bottom; row += 1) {
    rows.push(
      source.columns.slice(left, right + 1).map(({ name, type }) => {
        const value = source.valueAt(row, name) ?? null;
        if (value === null) return null;
        return kindOf(type) === 'json' ? JSON.stringify(value) : editText(value, type);
      }),
    );
  }
  return writeTsv(rows);
}

export function hasCut(source: GridSource, selection: Selection): boolean {
  const { top, bottom, left, right } = rectOf(selection);
  for (let row = top; row <= bottom; row += 1) {
    for (const { name } of source.columns.slice(left, right + 1)) if (source.isCut?.(row, name)) return true;
  }
  return false;
}

/** One copied value fills the whole selection; otherwise the selection's corner is where the range begins. */
export function pasteEdits(
  source: GridSource,
  selection: Selection,
  pasted: (string | null)[][],
): GridEdit[] {
  const rect = rectOf(selection);
  const isSingle = pasted.length === 1 && pasted[0]?.length === 1;
  const bottom = isSingle ? rect.bottom : rect.top + pasted.length - 1;
  const edits: GridEdit[] = [];
  for (let row = rect.top; row <= Math.min(bottom, source.rowCount - 1); row += 1) {
    const values = pasted[isSingle ? 0 : row - rect.top] ?? [];
    const right = isSingle ? rect.right : rect.left + values.length - 1;
    for (let at = rect.left; at <= right; at += 1) {
      const column = source.columns[at];
      if (!column || column.isReadOnly) continue;
      const text = (isSingle ? values[0] : values[at - rect.left]) ?? null;
      edits.push({ row, column, text: text === null && !column.isNullable ? '' : text });
    }
  }
  return edits;
}

export function clearEdits(source: GridSource, selection: Selection): GridEdit[] {
  const { top, bottom, left, right } = rectOf(selection);
  const edits: GridEdit[] = [];
  for (let row = top; row <= bottom; row += 1) {
    for (const column of source.columns.slice(left, right + 1)) {
      if (!column.isReadOnly) edits.push({ row, column, text: column.isNullable ? null : '' });
    }
  }
  return edits;
}
