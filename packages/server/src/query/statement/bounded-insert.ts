// Recognizes inserts whose rows are in their text and parameters: INSERT … VALUES with only constants and parameters. How much
// such an insert can store is known before it runs (insert-growth.ts). This is an allowlist: an insert with anything that is not
// listed here is not bounded.
import { type Node, quotedName } from './references.ts';

export type BoundedInsert = Readonly<{
  /** Quoted, for to_regclass. */
  relation: string;
  rows: number;
  /** Bytes of its constants. Those of its parameters come with each request. */
  constantBytes: number;
}>;

const insertFields = new Set([
  ...['relation', 'cols', 'selectStmt', 'onConflictClause', 'returningClause', 'override'],
]);
const valuesFields = new Set(['valuesLists', 'limitOption', 'op']);
const relationFields = new Set(['schemaname', 'relname', 'inh', 'relpersistence', 'alias', 'location']);

/** `body`: an InsertStmt of the parser. */
export function findBoundedInsert(body: Node): BoundedInsert | null {
  const relation = body.relation as Node | undefined;
  if (!relation || !hasOnly(body, insertFields) || !hasOnly(relation, relationFields)) return null;
  if (
    !isPlainTarget(body) ||
    !ignoresConflicts(body.onConflictClause) ||
    !returnsColumns(body.returningClause)
  )
    return null;
  const values = (body.selectStmt as { SelectStmt?: Node } | undefined)?.SelectStmt;
  if (values === undefined && body.selectStmt !== undefined) return null;
  const stored = values === undefined ? { rows: 1, constantBytes: 0 } : readValues(values);
  return stored && { relation: quotedName(relation), ...stored };
}

function isPlainTarget({ cols, override }: Node): boolean {
  const columns = (cols ?? []) as { ResTarget?: Node }[];
  return (
    override === 'OVERRIDING_NOT_SET' &&
    columns.every(({ ResTarget: column }) => column && !column.indirection && !column.val)
  );
}

function ignoresConflicts(clause: unknown): boolean {
  if (clause === undefined) return true;
  const { action, whereClause } = clause as Node;
  return action === 'ONCONFLICT_NOTHING' && whereClause === undefined;
}

/** `row.name` could call a function. */
function returnsColumns(clause: unknown): boolean {
  if (clause === undefined) return true;
  const { exprs, options } = clause as { exprs?: { ResTarget?: { val?: Node } }[]; options?: unknown };
  if (options !== undefined) return false;
  return (exprs ?? []).every(({ ResTarget: item }) => {
    const { fields } = (item?.val?.ColumnRef ?? {}) as { fields?: unknown[] };
    return fields?.length === 1;
  });
}

function readValues(values: Node): Pick<BoundedInsert, 'rows' | 'constantBytes'> | null {
  if (!Array.isArray(values.valuesLists) || !hasOnly(values, valuesFields)) return null;
  const lists = values.valuesLists as { List?: { items?: Node[] } }[];
  const parameters = new Set<number>();
  let constantBytes = 0;
  for (const { List: list } of lists) {
    for (const item of list?.items ?? []) {
      const bytes = bytesOf(item, parameters);
      if (bytes === null) return null;
      constantBytes += bytes;
    }
  }
  return { rows: lists.length, constantBytes };
}

/** null: not a value whose size is known. */
function bytesOf(item: Node, parameters: Set<number>): number | null {
  if (item.SetToDefault) return 0;
  const parameter = item.ParamRef as { number?: number } | undefined;
  if (parameter) {
    const { number = 0 } = parameter;
    // Used twice, it would be stored twice.
    if (parameters.has(number)) return null;
    parameters.add(number);
    return 0;
  }
  const constant = item.A_Const as Node | undefined;
  if (!constant) return null;
  const { isnull, ival, boolval, sval, fval } = constant;
  if (isnull || boolval) return 8;
  if (ival) return 16;
  if (sval) return Buffer.byteLength((sval as { sval?: string }).sval ?? '');
  const digits = (fval as { fval?: string } | undefined)?.fval;
  // In a column of text, 1e9999 is stored with all its digits.
  return digits !== undefined && /^-?[0-9.]+$/.test(digits) ? digits.length : null;
}

function hasOnly(node: Node, fields: ReadonlySet<string>): boolean {
  return Object.keys(node).every((field) => fields.has(field));
}
