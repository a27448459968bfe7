// Edits that wait to be applied: changed cells, new rows, deleted rows. Every step makes a new value and keeps the old
// one, so that undo and redo only move a pointer. Nothing here knows of the screen or of SQL.
export type Value = unknown;
/** Identifies a stored row: the JSON of its primary key. A new row has a key that starts with "new ". */
export type RowKey = string;

export type StoredRow = { key: RowKey; values: Record<string, Value> };
export type Changed = { before: Record<string, Value>; set: Record<string, Value> };
export type Staged = {
  /** By row: the values as they were read, and the new values of the changed columns. */
  changed: ReadonlyMap<RowKey, Changed>;
  /** A column that is missing gets its default. */
  inserted: ReadonlyMap<RowKey, Record<string, Value>>;
  deleted: ReadonlyMap<RowKey, Record<string, Value>>;
};
export type History = { states: readonly Staged[]; at: number; nextNew: number };
/** `seen`: the whole value that the person saw, where the row has only its beginning. */
export type CellEdit = { row: StoredRow; column: string; value: Value; seen?: Value };

const nothing: Staged = { changed: new Map(), inserted: new Map(), deleted: new Map() };
/** Old steps beyond this are forgotten. */
const stepsMax = 200;

export const emptyHistory: History = { states: [nothing], at: 0, nextNew: 1 };
export const stagedOf = ({ states, at }: History): Staged => states[at] ?? nothing;
export const canUndo = ({ at }: History) => at > 0;
export const canRedo = ({ states, at }: History) => at < states.length - 1;
export const undo = (history: History): History =>
  canUndo(history) ? { ...history, at: history.at - 1 } : history;
export const redo = (history: History): History =>
  canRedo(history) ? { ...history, at: history.at + 1 } : history;

export const isNew = (key: RowKey) => key.startsWith('new ');

export function countOf({ changed, inserted, deleted }: Staged): number {
  return changed.size + inserted.size + deleted.size;
}

/** One step for any number of cells: a paste is undone at once. */
export function setCells(history: History, edits: readonly CellEdit[]): History {
  const now = stagedOf(history);
  const changed = new Map(now.changed);
  const inserted = new Map(now.inserted);
  for (const { row, column, value, seen } of edits) {
    if (isNew(row.key)) {
      inserted.set(row.key, { ...inserted.get(row.key), [column]: value });
    } else if (!now.deleted.has(row.key)) {
      const { before: first, set } = changed.get(row.key) ?? { before: row.values, set: {} };
      // The other columns may have been read earlier.
      const shown = seen ?? row.values[column];
      const before = column in set || shown === undefined ? first : { ...first, [column]: shown };
      const next = { ...set, [column]: value };
      if (isEqual(before[column], value)) delete next[column];
      if (Object.keys(next).length === 0) changed.delete(row.key);
      else changed.set(row.key, { before, set: next });
    }
  }
  return step(history, { ...now, changed, inserted });
}

export function insertRows(history: History, rows: readonly Record<string, Value>[]): History {
  const now = stagedOf(history);
  const inserted = new Map(now.inserted);
  let { nextNew } = history;
  for (const values of rows) inserted.set(`new ${nextNew++}`, values);
  return { ...step(history, { ...now, inserted }), nextNew };
}

/** New rows vanish, stored rows are marked. A second time unmarks them. */
export function toggleDeleted(history: History, rows: readonly StoredRow[]): History {
  const now = stagedOf(history);
  const changed = new Map(now.changed);
  const inserted = new Map(now.inserted);
  const deleted = new Map(now.deleted);
  const isRestoring = rows.every(({ key }) => deleted.has(key));
  for (const { key, values } of rows) {
    if (isNew(key)) inserted.delete(key);
    else if (isRestoring) deleted.delete(key);
    else {
      deleted.set(key, changed.get(key)?.before ?? values);
      changed.delete(key);
    }
  }
  return step(history, { changed, inserted, deleted });
}

/** A row that somebody else has changed since the page read it. `theirs`: its present values; null: the row was deleted. */
export type Difference = {
  key: RowKey;
  columns: readonly string[];
  theirs: Record<string, Value> | null;
  /** The values that the row must still have when the change is applied after all. */
  expected: Record<string, Value>;
};
/** theirs: what they changed stays. mine: it is overwritten. drop: the row stays as it is now. */
export type Resolution = 'theirs' | 'mine' | 'drop';

/** `again`: what is inserted in place of a row that is gone, if the person keeps their change. */
export function resolve(
  history: History,
  { key, columns, theirs, expected }: Difference,
  resolution: Resolution,
  again: Record<string, Value> = {},
): History {
  const now = stagedOf(history);
  const changed = new Map(now.changed);
  const inserted = new Map(now.inserted);
  const deleted = new Map(now.deleted);
  const change = changed.get(key);
  changed.delete(key);
  inserted.delete(key);
  deleted.delete(key);
  let { nextNew } = history;
  if (resolution === 'mine' && now.deleted.has(key) && theirs) deleted.set(key, expected);
  if (resolution !== 'drop' && change && theirs) {
    const isMine = (column: string) => resolution === 'mine' || !columns.includes(column);
    const set = Object.fromEntries(Object.entries(change.set).filter(([column]) => isMine(column)));
    if (Object.keys(set).length > 0) changed.set(key, { before: expected, set });
  }
  if (resolution === 'mine' && change && !theirs) inserted.set(`new ${nextNew++}`, again);
  return { ...step(history, { changed, inserted, deleted }), nextNew };
}

export function discardAll(history: History): History {
  return countOf(stagedOf(history)) === 0 ? history : step(history, nothing);
}

/** JSON values are equal if they are written the same. */
export function isEqual(a: Value, b: Value): boolean {
  return (
    a === b || (typeof a === 'object' && typeof b === 'object' && JSON.stringify(a) === JSON.stringify(b))
  );
}

function step(history: History, next: Staged): History {
  const states = [...history.states.slice(0, history.at + 1), next].slice(-stepsMax);
  return { ...history, states, at: states.length - 1 };
}
