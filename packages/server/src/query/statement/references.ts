// What a statement can reach, by its parse tree: the relations, functions, operators, types and collations that it names,
// and what it does to rows. Decided by what is known to be harmless: a kind of node that is not listed here, or a function
// that is not on the list of harmless ones, makes the statement `unbounded`. Whether the names mean PostgreSQL's own objects is
// for the catalog to say (reachable-code.ts).
import { harmlessFunctions } from './harmless-functions.ts';

export type Node = Record<string, unknown>;

/** Names of objects, as the statement resolves them along the search path. */
export type Reached = Readonly<{
  /** Each has to exist: quoted, for to_regclass. */
  relations: readonly string[];
  /** Names that a WITH query has too, so that they may mean nothing in the catalog. */
  shadowed: readonly string[];
  /** `row.name` calls a function if there is no such column. */
  functions: readonly string[];
  operators: readonly string[];
  /** A call of `name('literal')` is a cast where a type has that name. */
  types: readonly string[];
  collations: readonly string[];
}>;

export type References = Readonly<{
  /** It can run what is not known to be harmless. */
  unbounded: boolean;
  writes: boolean;
  /** It removes rows, and neither adds nor changes any. */
  deletesAlone: boolean;
  /** It changes or removes rows that were there before. */
  changes: boolean;
  locks: boolean;
  reached: Reached;
}>;

/** Every kind of node whose meaning is known: what it can call is either named in it or among `impliedOperators`. */
const knownNodes = new Set(
  `SelectStmt InsertStmt UpdateStmt DeleteStmt MergeStmt MergeWhenClause ResTarget MultiAssignRef SetToDefault
  CommonTableExpr RangeVar RangeSubselect RangeFunction JoinExpr LockingClause SortBy WindowDef GroupingSet IndexElem
  ReturningOption ColumnDef List String Integer A_Const A_Star ColumnRef ParamRef A_Expr BoolExpr NullTest BooleanTest
  SubLink CaseExpr CaseWhen CoalesceExpr MinMaxExpr A_ArrayExpr RowExpr A_Indirection A_Indices TypeCast CollateClause
  FuncCall NamedArgExpr SQLValueFunction GroupingFunc MergeSupportFunc JsonObjectConstructor JsonKeyValue
  JsonArrayConstructor JsonValueExpr JsonFuncExpr JsonIsPredicate JsonArrayAgg JsonObjectAgg JsonParseExpr
  JsonScalarExpr JsonSerializeExpr`.split(/\s+/),
);

/** Their fields that hold nodes. `intoClause`, which makes a table anywhere in a UNION, is not among them. */
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

/** Used without being named: by IN, BETWEEN, LIKE, CASE x WHEN y, NULLIF, USING, row comparisons and the like. */
const impliedOperators = '= <> < <= > >= ~~ !~~ ~~* !~~* ~ !~'.split(' ');

/** All below the root, WITH queries included. Without recursion: trees can be deep. */
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
      // Kinds of nodes begin with a capital letter, their fields do not.
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

/** As PostgreSQL's to_regclass reads it. */
function quotedName({ schemaname, relname }: Node): string {
  return schemaname ? `${quoted(schemaname)}.${quoted(relname)}` : quoted(relname);
}

function quoted(name: unknown): string {
  return `"${String(name).replaceAll('"', '""')}"`;
}
