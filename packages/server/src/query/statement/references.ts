// Finds what a statement can reach in its parse tree: the relations, functions, operators, types and collations that it
// names, and what it does to rows. This is an allowlist: a node that is not listed here, or a function that is not known
// to be harmless, makes the statement `unbounded`. The catalog tells whether the names mean PostgreSQL's own objects
// (reachable-code.ts).
import { harmlessFunctions } from './harmless-functions.ts';

export type Node = Record<string, unknown>;

/** Names of objects, which PostgreSQL resolves with the search path. */
export type Reached = Readonly<{
  /** Relations that have to exist. Quoted, as regclass and to_regclass read them. */
  relations: readonly string[];
  /** Names that are also names of WITH queries, so they need not exist in the catalog. */
  shadowed: readonly string[];
  /** Includes column references: `row.name` calls a function if there is no such column. */
  functions: readonly string[];
  operators: readonly string[];
  /** Includes function names: `name('literal')` is a cast if a type has that name. */
  types: readonly string[];
  collations: readonly string[];
}>;

export type References = Readonly<{
  /** It can run code that is not known to be harmless. */
  unbounded: boolean;
  writes: boolean;
  /** It removes rows, and neither adds nor updates any. */
  deletesAlone: boolean;
  /** It changes or removes existing rows. */
  changes: boolean;
  locks: boolean;
  reached: Reached;
}>;

/** Nodes whose meaning is known: everything they can call is either named in them or in `impliedOperators`. */
const knownNodes = new Set(
  `SelectStmt InsertStmt UpdateStmt DeleteStmt MergeStmt MergeWhenClause ResTarget MultiAssignRef SetToDefault
  CommonTableExpr RangeVar RangeSubselect RangeFunction JoinExpr LockingClause SortBy WindowDef GroupingSet IndexElem
  ReturningOption ColumnDef List String Integer A_Const A_Star ColumnRef ParamRef A_Expr BoolExpr NullTest BooleanTest
  SubLink CaseExpr CaseWhen CoalesceExpr MinMaxExpr A_ArrayExpr RowExpr A_Indirection A_Indices TypeCast CollateClause
  FuncCall NamedArgExpr SQLValueFunction GroupingFunc MergeSupportFunc JsonObjectConstructor JsonKeyValue
  JsonArrayConstructor JsonValueExpr JsonFuncExpr JsonIsPredicate JsonArrayAgg JsonObjectAgg JsonParseExpr
  JsonScalarExpr JsonSerializeExpr`.split(/\s+/),
);

/** The fields of these nodes that contain nodes. Not `intoClause`, which creates a table, even within a UNION. */
const knownFields = new Set(
  `agg_filter agg_order alias arg args arrayBounds boolval bsval coldeflist collClause collation collname colnames cols
  constructor content context_item ctequery ctes cycle_clause cycle_col_list cycle_mark_default cycle_mark_value
  defresult distinctClause elements expr exprs fields format fromClause funcname functions fval groupClause havingClause
  indexElems indirection infer items ival key larg lexpr lidx limitCount limitOffset lockedRels lockingClause
  joinCondition mergeWhenClauses name names node onConflictClause on_empty on_error operName options orderClause output
  over partitionClause passing pathspec quals rarg raw_expr relation result returning returningClause rexpr
  search_clause search_col_list selectStmt sortClause sourceRelation startOffset endOffset subquery subselect sval
  targetList testexpr typeName typmods uidx useOp usingClause val value values valuesLists whereClause windowClause
  withClause`.split(/\s+/),
);

/** Used without being named, by IN, BETWEEN, LIKE, CASE x WHEN y, NULLIF, USING, row comparisons and similar. */
const impliedOperators = '= <> < <= > >= ~~ !~~ ~~* !~~* ~ !~'.split(' ');

/** Visits the whole tree, including WITH queries. Without recursion, because trees can be deep. */
export function findReferences(root: Node): References {
  const pending: unknown[] = [root];
  let unbounded = false;
  let writes = false;
  let changes = false;
  let adds = false;
  let locks = false;
  const relations = new Set<string>();
  const queries = new Set<string>();
  const functions = new Set<string>();
  const operators = new Set(impliedOperators);
  const types = new Set<string>();
  const collations = new Set<string>();

  const visit = (key: string, value: Node) => {
    if (key === 'RangeVar' || key === 'relation') relations.add(quotedName(value));
    else if (key === 'CommonTableExpr') queries.add(quoted(value.ctename));
    else if (key === 'lockingClause') locks = true;
    else if (key === 'FuncCall') {
      unbounded ||= !isHarmless(value);
      functions.add(lastOf(value.funcname));
      types.add(lastOf(value.funcname));
    } else if (key === 'ColumnRef') {
      for (const name of namesIn(value.fields).slice(1)) functions.add(name);
    } else if (key === 'indirection') for (const name of namesIn(value)) functions.add(name);
    else if (key === 'A_Expr') operators.add(lastOf(value.name));
    else if (key === 'operName' || key === 'useOp') operators.add(lastOf(value));
    else if (key === 'typeName') types.add(lastOf(value.names));
    else if (key === 'collname' || key === 'collation') collations.add(lastOf(value));
    else if (key === 'InsertStmt') writes = adds = true;
    else if (key === 'UpdateStmt' || key === 'MergeStmt') writes = adds = changes = true;
    else if (key === 'DeleteStmt') writes = changes = true;
    else if (key === 'onConflictClause') changes ||= value.action !== 'ONCONFLICT_NOTHING';
  };

  while (pending.length > 0) {
    const node = pending.pop();
    if (Array.isArray(node)) {
      pending.push(...node);
      continue;
    }
    if (typeof node !== 'object' || node === null) continue;
    for (const [key, value] of Object.entries(node)) {
      if (typeof value !== 'object' || value === null) continue;
      // Node names begin with a capital letter, field names do not.
      if (!(key < 'a' ? knownNodes : knownFields).has(key)) unbounded = true;
      visit(key, value as Node);
      pending.push(value);
    }
  }
  return {
    unbounded,
    writes,
    deletesAlone: writes && !adds && !unbounded,
    changes,
    locks,
    reached: {
      relations: [...relations].filter((name) => !queries.has(name)),
      shadowed: [...relations].filter((name) => queries.has(name)),
      functions: [...functions],
      operators: [...operators],
      types: [...types],
      collations: [...collations],
    },
  };
}

function isHarmless({ funcname }: Node): boolean {
  const names = namesIn(funcname);
  if (names.length > 2 || (names.length === 2 && names[0] !== 'pg_catalog')) return false;
  return harmlessFunctions.has(names.at(-1) ?? '');
}

function lastOf(parts: unknown): string {
  return namesIn(parts).at(-1) ?? '';
}

function namesIn(parts: unknown): string[] {
  if (!Array.isArray(parts)) return [];
  return (parts as { String?: { sval?: string } }[]).flatMap((part) => part.String?.sval ?? []);
}

/** In the form that to_regclass reads. */
export function quotedName({ schemaname, relname }: Node): string {
  return schemaname ? `${quoted(schemaname)}.${quoted(relname)}` : quoted(relname);
}

function quoted(name: unknown): string {
  return `"${String(name).replaceAll('"', '""')}"`;
}
