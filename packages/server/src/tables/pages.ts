// Reads a page of a table's rows: request → tables → statement → rows → bytes.
import { setTimeout as sleep } from 'node:timers/promises';
import type { ProjectLogin } from '../engine/provision.ts';
import { RowhouseError } from '../errors.ts';
import type { Form, Result } from '../query/exchange/answer-writer.ts';
import { contextOf, routineOf } from '../query/exchange/failures.ts';
import type { Answer } from '../query/exchange/held-answer.ts';
import { ask } from '../query/look-up.ts';
import { type RowFormat, rowsOnly } from '../query/rows-only.ts';
import { type CompiledQuery, runCompiled } from '../query/run.ts';
import type { Statement } from '../query/statement/statement.ts';
import type { MaySee, Table } from './catalog/catalog.ts';
import { explainFilterError } from './filter-errors.ts';
import { seesAll, withoutHidden } from './hidden-tables.ts';
import { type PageRequest, readPageRequest, readRowsRequest } from './request/request.ts';
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
  /** Why a caller who may not see the whole project is refused; null: allowed. */
  unknownName: Error | null;
}>;

/** Plans of longer requests are not cached. */
const maxCachedLength = 300;
/** A count that takes longer is replaced by an estimate. */
const countMs = 1_000;

/** Returns the whole response, or null if it was streamed to the reader. */
export function readPage(deps: TableDeps, call: TableCall): Promise<Answer> {
  const { project, name, rawQuery, reader, access } = call;
  const tables = tablesOf(deps, project, access.maySee);
  // A raw query string contains no space, so the key is unambiguous.
  const key = `${rawQuery} ${name}`;
  // Before any look-up: most mistakes are in the request.
  const request = (tables.cache.plans.get(key) as Plan | undefined)?.request ?? readPageRequest(rawQuery);
  return withTables(
    tables,
    () => makePlan(tables, call, request, key),
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
  const { project, name, rawQuery, reader, access } = call;
  const tables = tablesOf(deps, project, access.maySee);
  const request = readRowsRequest(rawQuery);
  return withTables(
    tables,
    () => makePlan(tables, call, request, `rows ${rawQuery} ${name}`),
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
  { request, table, page }: Plan,
  { actingUser }: ProjectLogin,
  maySee: MaySee,
): unknown {
  if (!(error instanceof RowhouseError) || !error.sql) return error;
  const { select, where } = request;
  const refused = actingUser ? explainRefusal(error, table, 'select', actingUser.role) : error;
  const filtered = { table, select, where, params: page.params };
  const explained = explainFilterError(explainWriting(refused, table), filtered, contextOf(error));
  return withoutHidden(error, explained, table, maySee);
}

/** Recognized by the routine inside PostgreSQL: the project's own code can raise any state. */
function explainWriting(error: RowhouseError, { name }: Table): RowhouseError {
  if (routineOf(error) !== 'PreventCommandIfReadOnly') return error;
  const hint = `Rows are read in a read-only transaction, and something that "${name}" runs for it writes: a function of a view, of a policy or of a column. Call it by POST …/query instead.`;
  return reword(error, { hint });
}

async function makePlan(
  tables: Tables,
  { project, name, access: { check, maySee } }: TableCall,
  request: PageRequest,
  key: string,
): Promise<Plan> {
  const seesWhole = project.actingUser === undefined && maySee === seesAll;
  const known = tables.cache.plans.get(key) as Plan | undefined;
  // A plan that was made for a key that sees more must not reveal to this one that a table exists.
  if (known && (seesWhole || (!known.unknownName && known.tables.every(maySee)))) return known;
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
  const statement = statementOf(tables.cache, page.text, { isPlain: page.isPlain, writes: false });
  const plan = { request, table, relations, page, statement, tables: all, unknownName: unknown };
  if (key.length <= maxCachedLength) tables.cache.plans.set(key, plan);
  return plan;
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
  return runCompiled(deps.query, call.project, taskOf(call, plan, form), call.reader);
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
    return ask(deps.query, project, text, [...params], { timeoutMs, isPlain, readOnly: true });
  };
  const estimate = async (): Promise<Count> => ({
    rows: readEstimate((await run('estimated', countMs)) ?? ''),
    kind: 'estimated',
  });
  const counts = async (): Promise<Count> => {
    if (request.count === 'estimated') return estimate();
    const exact = run('exact', countMs).catch(() => null);
    const counted = await Promise.race([exact, sleep(countMs, null, { ref: false })]);
    return counted === null ? estimate() : { rows: Number(counted), kind: 'exact' };
  };
  return counts().catch(() => null);
}
