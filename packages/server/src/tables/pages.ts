// Reads a page of a table's rows: request → tables → statement → rows → bytes.

import { RowhouseError } from '../errors/errors.ts';
import { within } from '../lib/pause.ts';
import type { Form, Result } from '../query/exchange/answer-writer.ts';
import { contextOf, routineOf } from '../query/exchange/failures.ts';
import type { Answer } from '../query/exchange/held-answer.ts';
import { objectsWithoutRowTypes } from '../query/json/layout.ts';
import { lookUp } from '../query/look-up.ts';
import { type RowFormat, rowsOnly } from '../query/rows-only.ts';
import { type CompiledQuery, runCompiled } from '../query/run.ts';
import type { Statement } from '../query/statement/statement.ts';
import type { ProjectLogin } from '../servers/databases/login.ts';
import type { MaySee, Table } from './catalog/catalog.ts';
import { explainFilterError } from './filter-errors.ts';
import { hasRowTypes, seesAll, withoutHidden } from './hidden-tables.ts';
import { type PageRequest, readPageRequest, readRowsRequest } from './request/request.ts';
import { isParameterized, type Shape, shapeOf, wholeShape, withValues } from './request/shape.ts';
import { explainRefusal } from './row-security.ts';
import { unknownName } from './sql/allowed-names.ts';
import { type CompiledPage, compileCount, compilePage, nextCursor, readEstimate } from './sql/compile.ts';
import { type Relations, relate } from './sql/embeds.ts';
import { statementOf, type TableDeps, type Tables, tablesOf, withTables } from './table-cache.ts';
import type { TableCall } from './table-call.ts';
import { reword } from './write/errors.ts';

type Plan = Readonly<{
  request: PageRequest;
  table: Table;
  relations: Relations;
  page: CompiledPage;
  statement: Statement;
  tables: readonly Table[];
  /** The name of a type can be that of a table. */
  hasRowTypes: boolean;
  /** Why a caller who may not see the whole project is refused; null: allowed. */
  unknownName: Error | null;
}>;

/** Plans with longer keys are not cached. */
const maxKeyLength = 300;
/** A count that takes longer is replaced by an estimate. */
const countMs = 1_000;

/** Returns the whole response, or null if it was streamed to the reader. */
export function readPage(deps: TableDeps, call: TableCall): Promise<Answer> {
  const { project, rawQuery, reader, access } = call;
  const tables = tablesOf(deps, project, access.maySee);
  const shape = shapeOf(rawQuery);
  return withTables(
    tables,
    () => makePlan(tables, call, readPageRequest, shape),
    async (plan) => {
      access.check(plan.tables);
      const counting = plan.request.count === null ? null : countRows(deps, project, plan);
      const answer = await runPage(deps, call, plan);
      if (!counting) return answer;
      const end = Buffer.from(`,"count":${JSON.stringify(await counting)}}`);
      if (Buffer.isBuffer(answer)) return Buffer.concat([answer, end]);
      if (answer) answer.write(end);
      else reader.write(end, () => {});
      return answer;
    },
    reader,
    (error, plan) => explain(error, plan, project, access.maySee),
  );
}

/** The rows alone, as CSV or JSON lines. Their plans have keys of their own: the limit differs. */
export function readRows(deps: TableDeps, call: TableCall, format: RowFormat): Promise<Answer> {
  const { project, reader, access } = call;
  const tables = tablesOf(deps, project, access.maySee);
  return withTables(
    tables,
    // With a line break, which a query string cannot contain, so that its key differs from that of a page.
    () => makePlan(tables, call, readRowsRequest, wholeShape(`\n${call.rawQuery}`)),
    (plan) => {
      access.check(plan.tables);
      return runCompiled(deps.query, project, taskOf(call, plan, rowsOnly(format, plan.page.hidden)), reader);
    },
    reader,
    (error, plan) => explain(error, plan, project, access.maySee),
  );
}

function explain(
  error: unknown,
  { request, table, tables, page }: Plan,
  { actingUser }: ProjectLogin,
  maySee: MaySee,
): unknown {
  if (!(error instanceof RowhouseError) || !error.sql) return error;
  const { select, where } = request;
  const refused = actingUser ? explainRefusal(error, table, 'select', actingUser.role) : error;
  const filtered = { table, select, where, params: page.params };
  const explained = explainFilterError(explainWriting(refused, table), filtered, contextOf(error));
  return withoutHidden(error, explained, tables, maySee);
}

/** Recognized by the routine inside PostgreSQL: the project's own code can raise any state. */
function explainWriting(error: RowhouseError, { name }: Table): RowhouseError {
  if (routineOf(error) !== 'PreventCommandIfReadOnly') return error;
  const hint = `Rows are read in a read-only transaction, and something that "${name}" runs for it writes: a function of a view, of a policy or of a column. Call it by POST …/query instead.`;
  return reword(error, { hint });
}

async function makePlan(
  tables: Tables,
  call: TableCall,
  readRequest: (rawQuery: string) => PageRequest,
  shape: Shape,
): Promise<Plan> {
  const { project, name, access } = call;
  const { check, maySee } = access;
  const seesWhole = project.actingUser === undefined && maySee === seesAll;
  const known = findPlan(tables, call, shape);
  // A plan that was made for a key that sees more must not reveal to this one that a table exists.
  if (known && (seesWhole || (!known.unknownName && known.tables.every(maySee)))) return known;
  // Before any look-up: most mistakes are in the request.
  const request = readRequest(call.rawQuery);
  const table = await tables.get(name);
  // Before the request is checked: its errors would reveal columns of a table that the caller may not see.
  check([table]);
  const relations = await relate(tables.load, table, request.select, maySee);
  const all = [
    table,
    ...[...relations.values()].flatMap((one) => [one.table, ...(one.through ? [one.through] : [])]),
  ];
  check(all);
  const unknown = unknownName(request, table, relations);
  if (unknown && !seesWhole) throw unknown;
  const page = compilePage(request, table, relations);
  const code = all.find(({ isPlainToRead }) => !isPlainToRead)?.code ?? null;
  const statement = statementOf(tables.cache, page.text, { isPlain: page.isPlain, writes: false, code });
  const plan = {
    request,
    table,
    relations,
    page,
    statement,
    tables: all,
    hasRowTypes: hasRowTypes(all),
    unknownName: unknown,
  };
  keepPlan(tables, call, shape, plan);
  return plan;
}

function findPlan(
  { cache: { plans } }: Tables,
  { name, rawQuery }: TableCall,
  shape: Shape,
): Plan | undefined {
  const plan = plans.get(keyOf(name, shape.text)) as Plan | undefined;
  if (shape.values.length === 0) return plan;
  if (!plan) return plans.get(keyOf(name, rawQuery)) as Plan | undefined;
  return { ...plan, request: withValues(plan.request, shape), page: { ...plan.page, params: shape.values } };
}

function keepPlan(
  { cache: { plans } }: Tables,
  { name, rawQuery }: TableCall,
  shape: Shape,
  plan: Plan,
): void {
  const isForShape = shape.values.length === 0 || isParameterized(plan.request, plan.page.params, shape);
  const key = keyOf(name, isForShape ? shape.text : rawQuery);
  if (key.length <= maxKeyLength) plans.set(key, plan);
}

/** Neither a raw query string nor the text of a shape contains a space, so the key is unambiguous. */
function keyOf(name: string, text: string): string {
  return `${text} ${name}`;
}

function runPage(deps: TableDeps, call: TableCall, plan: Plan): Promise<Answer> {
  const { request, page } = plan;
  let last: (string | null)[] = [];
  const { cursor } = page;
  const form: Form = {
    opening,
    hasHead: true,
    hasRows: true,
    hidden: page.hidden,
    onLastRow: cursor
      ? (row, start) => {
          last = readTexts(row, start, cursor.columns);
        }
      : null,
    close: (exchange) => pageEnd(exchange, request, exchange.truncated ? nextCursor(page, last) : null),
  };
  const hidesRowTypes = plan.hasRowTypes && call.access.maySee !== seesAll;
  const shown = hidesRowTypes ? { ...form, layout: objectsWithoutRowTypes } : form;
  return runCompiled(deps.query, call.project, taskOf(call, plan, shown), call.reader);
}

function taskOf(
  { access: { timeoutMs } }: TableCall,
  { request, page, statement }: Plan,
  form: Form,
): CompiledQuery {
  const input = {
    query: page.text,
    params: page.params,
    limit: page.limit,
    bigAsString: request.numbersAsStrings,
  };
  return { statement, input, form, timeoutMs, maxAffected: null, readOnly: true };
}

const opening = Buffer.from('{"ok":true,');

function pageEnd({ rowCount, truncated }: Result, request: PageRequest, next: string | null): string {
  const page = request.cursor === null ? request.page : null;
  return (
    `],"row_count":${rowCount},"page":${page},"limit":${request.limit},` +
    `"has_more":${truncated},"next_cursor":${JSON.stringify(next)}${request.count === null ? '}' : ''}`
  );
}

/** Reads some values of a row as PostgreSQL wrote them. */
function readTexts(row: Buffer, start: number, wanted: readonly number[]): (string | null)[] {
  const found: (string | null)[] = wanted.map(() => null);
  const count = row.readUInt16BE(start);
  let at = start + 2;
  for (let index = 0; index < count; index++) {
    const size = row.readInt32BE(at);
    at += 4;
    if (size < 0) continue;
    for (const [position, column] of wanted.entries()) {
      if (column === index) found[position] = row.toString('utf8', at, at + size);
    }
    at += size;
  }
  return found;
}

type Count = { rows: number; kind: 'exact' | 'estimated' } | null;

/** Runs in another session while the rows are read. null: neither an exact count nor an estimate was available. */
function countRows(deps: TableDeps, project: ProjectLogin, plan: Plan): Promise<Count> {
  const { request, table, relations } = plan;
  const run = (count: 'exact' | 'estimated', timeoutMs: number) => {
    const { text, params, isPlain } = compileCount({ ...request, count }, table, relations);
    return lookUp(deps.query, project, text, [...params], { timeoutMs, isPlain, readOnly: true });
  };
  const estimate = async (): Promise<Count> => ({
    rows: readEstimate((await run('estimated', countMs)) ?? ''),
    kind: 'estimated',
  });
  const counts = async (): Promise<Count> => {
    if (request.count === 'estimated') return estimate();
    const exact = run('exact', countMs).catch(() => null);
    const counted = await within(countMs, exact, null);
    return counted === null ? estimate() : { rows: Number(counted), kind: 'exact' };
  };
  return counts().catch(() => null);
}
