// Recognizes updates and deletes of rows that parameters select by equality: UPDATE or DELETE of one table with `column = $1`
// among the conditions of its WHERE. Such statements share transactions (sharing/group-commit.ts), which lock rows in the order of
// these values. This is an allowlist: a statement with FROM, USING or WITH is not recognized.
import type { Node } from './references.ts';

export type RowKey = Readonly<{
  /** The table's name, without its schema. */
  table: string;
  /**
   * The parameters that select the rows, as indexes. A primary key keeps the order of its columns; other conditions keep their
   * order in the statement.
   */
  parameters: readonly number[];
}>;

const fields = new Set(['relation', 'targetList', 'whereClause', 'returningClause']);

/** `body`: an UpdateStmt or a DeleteStmt of the parser. */
export function findRowKey(body: Node): RowKey | null {
  if (!Object.keys(body).every((field) => fields.has(field))) return null;
  const { relname } = (body.relation ?? {}) as { relname?: string };
  const parameters = conditionsOf(body.whereClause).flatMap((condition) => equalParameter(condition) ?? []);
  return relname === undefined || parameters.length === 0 ? null : { table: relname, parameters };
}

function conditionsOf(where: unknown): Node[] {
  const { BoolExpr: all } = (where ?? {}) as { BoolExpr?: { boolop?: string; args?: Node[] } };
  if (all) return all.boolop === 'AND_EXPR' ? (all.args ?? []) : [];
  return where ? [where as Node] : [];
}

/** The index of the parameter in `column = $1` or `$1 = column`; null: it is another condition. */
function equalParameter({ A_Expr: expression }: Node): number | null {
  const { kind, name, lexpr, rexpr } = (expression ?? {}) as Record<string, unknown>;
  const [operator, more] = (name ?? []) as { String?: { sval?: string } }[];
  if (kind !== 'AEXPR_OP' || more || operator?.String?.sval !== '=') return null;
  const [left, right] = [lexpr, rexpr].map(withoutCasts) as [Node, Node];
  const parameter = left.ColumnRef ? right.ParamRef : right.ColumnRef ? left.ParamRef : undefined;
  const { number } = (parameter ?? {}) as { number?: number };
  return number === undefined ? null : number - 1;
}

function withoutCasts(node: unknown): Node {
  let inner = (node ?? {}) as Node;
  while (inner.TypeCast) inner = (inner.TypeCast as { arg?: Node }).arg ?? {};
  return inner;
}
