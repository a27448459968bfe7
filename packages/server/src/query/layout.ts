// How a result is laid out: what is said of its columns, and how each row is written.
import { type Column, compileRowWriter, type RowWriter } from './row-writer.ts';
import type { ValueType } from './value-kinds.ts';

/** What is the same for every run of a statement, worked out once. */
export type Shape = Readonly<{ layout: Layout; head: Buffer; types: string; write: RowWriter }>;

/** What was worked out is kept for the layout it was worked out for, so there is one object for each. */
export type Layout = Readonly<{
  shapeOf(columns: readonly Column[], types: readonly ValueType[]): Shape;
  /** Of a statement that gives no rows. */
  empty: Shape;
  /** Whether it matters what the project's own types are. */
  needsTypes: boolean;
}>;

/** The API's own: rows are objects, values as docs/query.md says. */
export const objects: Layout = {
  shapeOf: (columns, types) => ({
    layout: objects,
    head: Buffer.from(`"columns":${JSON.stringify(columns.map(({ name }) => name))},"rows":[`),
    types: JSON.stringify(types.map(({ name }) => name)),
    write: compileRowWriter(columns, types),
  }),
  get empty() {
    return nothing;
  },
  needsTypes: true,
};
const nothing: Shape = {
  layout: objects,
  head: Buffer.from('"columns":[],"rows":['),
  types: '[]',
  write: () => {},
};
