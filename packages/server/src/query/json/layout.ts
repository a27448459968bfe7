// How a result is laid out: what is said of its columns, and how each row is written.
import { type Column, compileRowWriter, planRows, type RowPlan, type RowWriter } from './row-writer.ts';
import type { ValueType } from './value-kinds.ts';

/** What is the same for every run of a statement, worked out once. */
export type ResultShape = Readonly<{
  layout: Layout;
  head: Buffer;
  /** What the head says of the columns. */
  columns: string;
  write: RowWriter;
  /** For rows that are written as they come. */
  plan: RowPlan;
}>;

/** What was worked out is kept for the layout it was worked out for, so there is one object for each. */
export type Layout = Readonly<{
  shapeOf(columns: readonly Column[], types: readonly ValueType[]): ResultShape;
  /** Of a statement that gives no rows. */
  empty: ResultShape;
  /** Whether it matters what the project's own types are. */
  needsTypes: boolean;
}>;

/** The API's own: rows are objects, values as docs/query.md says. */
export const objects: Layout = {
  shapeOf: (columns, types) => ({
    layout: objects,
    ...headOf(columns, types),
    ...writerOf(planRows(columns, types)),
  }),
  get empty() {
    return nothing;
  },
  needsTypes: true,
};
const nothing: ResultShape = { layout: objects, ...headOf([], []), ...writerOf(planRows([], [])) };

export function writerOf(plan: RowPlan): Pick<ResultShape, 'write' | 'plan'> {
  return { write: compileRowWriter(plan), plan };
}

/** Types come before the rows, so that a reader knows what they are while they stream in. */
function headOf(columns: readonly Column[], types: readonly ValueType[]): { head: Buffer; columns: string } {
  const [names, kinds] = [columns, types].map((list) => JSON.stringify(list.map(({ name }) => name)));
  const described = `"columns":${names},"types":${kinds}`;
  return { columns: described, head: Buffer.from(`${described},"rows":[`) };
}
