// What the grid shows, and what it reports: the screen that has a grid gives it a source and applies its edits. The size of a page of
// rows is gridPageRows in ../limits.ts.

export type GridColumn = {
  name: string;
  type: string;
  isKey?: boolean;
  /** The table that it refers to. */
  refersTo?: string | undefined;
  isNullable?: boolean;
  isReadOnly?: boolean;
  choices?: readonly string[] | undefined;
  sort?: 'ascending' | 'descending' | undefined;
};

export type GridSource = {
  columns: readonly GridColumn[];
  rowCount: number;
  /** undefined: the default of the column, which PostgreSQL fills in. */
  valueAt: (row: number, column: string) => unknown;
  rowState?: (row: number) => 'new' | 'changed' | 'deleted' | 'conflict' | null;
  isChanged?: (row: number, column: string) => boolean;
  /** Only the beginning of the value is here. It is opened instead of edited in its cell. */
  isCut?: (row: number, column: string) => boolean;
};

/** `seen`: the whole value that the person saw, where the row has only its beginning. */
export type GridEdit = { row: number; column: GridColumn; text: string | null; seen?: unknown };
