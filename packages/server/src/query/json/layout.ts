// The layout of a result: how its columns are described and how each row is written.
import { type Column, compileRowWriter, planRows, type RowPlan, type RowWriter } from './row-writer.ts';
import type { ValueType } from './value-kinds.ts';

/** What is the same for every run of a statement, computed once. */
export type ResultShape = Readonly<{
  layout: Layout;
  head: Buffer;
  /** The part of the head that describes the columns. */
  columns: string;
  write: RowWriter;
  /** For rows that are written while they arrive. */
  plan: RowPlan;
}>;

/** Shapes are cached with their layout and compared by identity, so each layout is one object. */
export type Layout = Readonly<{
  shapeOf(columns: readonly Column[], types: readonly ValueType[]): ResultShape;
  /** For a statement that returns no rows. */
  empty: ResultShape;
  /** Whether the project's own types have to be looked up. */
  needsTypes: boolean;
}>;

/** The API's layout: rows are objects, with values as in docs/query.md. */
export const objects: Layout = {
  shapeOf: (columns, types) => ({
    layout: objects,
    ...headOf(columns, types),
    ...writerOf(planRows(columns, types)),
  }),
  get empty() {
    return emptyShape;
  },
  needsTypes: true,
};

/** The same for a caller that must not learn of other tables: a type can be the row of one, with its name. */
export const objectsWithoutRowTypes: Layout = {
  shapeOf: (columns, types) => ({
    layout: objectsWithoutRowTypes,
    ...headOf(columns, types.map(withoutRowName)),
    ...writerOf(planRows(columns, types)),
  }),
  get empty() {
    return emptyWithoutRowTypes;
  },
  needsTypes: true,
};

const emptyShape: ResultShape = { layout: objects, ...headOf([], []), ...writerOf(planRows([], [])) };
const emptyWithoutRowTypes: ResultShape = { ...emptyShape, layout: objectsWithoutRowTypes };

export function writerOf(plan: RowPlan): Pick<ResultShape, 'write' | 'plan'> {
  return { write: compileRowWriter(plan), plan };
}

/** Rows and arrays of them are named as PostgreSQL names a row of no particular table. */
function withoutRowName(type: ValueType): ValueType {
  const { kind } = type;
  if (kind.is === 'array') {
    const element = withoutRowName({ name: type.name.slice(0, -2), kind: kind.element });
    return { ...type, name: `${element.name}[]` };
  }
  return kind.is === 'composite' || type.isTooDeep ? { ...type, name: 'record' } : type;
}

/** Types come before the rows, so that a client knows them while the rows stream in. */
function headOf(columns: readonly Column[], types: readonly ValueType[]): { head: Buffer; columns: string } {
  const [names, kinds] = [columns, types].map((list) => JSON.stringify(list.map(({ name }) => name)));
  const described = `"columns":${names},"types":${kinds}`;
  return { columns: described, head: Buffer.from(`${described},"rows":[`) };
}
