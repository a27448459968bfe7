// Inserts, updates and deletes rows without SQL: body and query string → tables → statements → rows → bytes.

import { errors, RowhouseError } from '../errors/errors.ts';
import { atOnce, inTurns, type Slices } from '../lib/fair-reads.ts';
import { sql } from '../postgres/sql.ts';
import { affectedBy } from '../query/answer.ts';
import { runTogether } from '../query/batch.ts';
import type { Form, Result } from '../query/exchange/answer-writer.ts';
import { contextOf } from '../query/exchange/failures.ts';
import type { Answer } from '../query/exchange/held-answer.ts';
import { isJsonObject } from '../query/json/json-text.ts';
import { isLarge } from '../query/json/large-json.ts';
import { objectsWithoutRowTypes } from '../query/json/layout.ts';
import { keepJsonTexts } from '../query/json/sent-json.ts';
import { runCompiled } from '../query/run.ts';
import type { Parts, Step } from '../query/steps.ts';
import type { ProjectLogin } from '../servers/databases/login.ts';
import type { MaySee, Table } from './catalog/catalog.ts';
import { explainFilterError } from './filter-errors.ts';
import { hasRowTypes, seesAll, withoutHidden } from './hidden-tables.ts';
import { mayCopy, readArrayRows, type SentRows } from './import/array-rows.ts';
import { canCopyArray, copyArray } from './import/copy-array.ts';
import { type ChangeRequest, readChangeRequest, readWord } from './request/request.ts';
import { explainRefusal } from './row-security.ts';
import { unknownName } from './sql/allowed-names.ts';
import { statementOf, type TableDeps, tablesOf, withTables } from './table-cache.ts';
import type { TableCall } from './table-call.ts';
import { explainWriteError } from './write/errors.ts';
import { compilingInsert } from './write/insert.ts';
import type { CompiledWrite, Returning } from './write/statement.ts';
import { compileDelete, compilingUpdate } from './write/update-delete.ts';
import { isJsonText } from './write/values.ts';

/** `answer`: the whole response, or null if it was streamed to the reader. */
export type Changed = Readonly<{ answer: Answer; isNew: boolean }>;

/** How a request changes rows. */
type Change = Readonly<{
  request: ChangeRequest;
  compile: (table: Table) => CompiledWrite[] | Promise<CompiledWrite[]>;
  form: RowsForm;
  maxAffected: number | null;
}>;

type Writes = Readonly<{ tables: readonly Table[]; writes: readonly CompiledWrite[] }>;

export async function insertRows(deps: TableDeps, call: TableCall, sent: SentRows): Promise<Changed> {
  const copied = mayCopy(call.rawQuery, sent.bytes) ? await copyRows(deps, call, sent.bytes) : null;
  return copied ?? insertParsed(deps, call, await sent.parse(), sent.bytes);
}

/** null: they cannot be copied, and nothing has happened. */
async function copyRows(deps: TableDeps, call: TableCall, bytes: Buffer): Promise<Changed | null> {
  const { project, reader, access } = call;
  const table = await findCopyable(deps, call);
  const rows = table && (await inTurns(readArrayRows(table, bytes)));
  if (!rows) return null;
  const count = await copyArray(deps.query, { project, table, rows, reader, timeoutMs: access.timeoutMs });
  if (count === null) {
    reader.mayHaveChanged = false;
    return null;
  }
  return { answer: Buffer.from(`{"ok":true,"row_count":${count}}`), isNew: count > 0 };
}

/** The ordinary insert reports why a table cannot be used, and notices if it was an outdated one. */
async function findCopyable(deps: TableDeps, { project, name, access }: TableCall): Promise<Table | null> {
  try {
    const table = await tablesOf(deps, project, access.maySee).get(name);
    access.check([table]);
    return canCopyArray(table, project) ? table : null;
  } catch {
    return null;
  }
}

async function insertParsed(
  deps: TableDeps,
  call: TableCall,
  body: unknown,
  bytes: Buffer,
): Promise<Changed> {
  const request = readChangeRequest(call.rawQuery, ['returning', 'on_conflict', 'resolution']);
  if (request.where.length > 0) {
    throw errors.invalidRequest(
      [{ path: '', problem: 'an insert does not support filters' }],
      'Use only the parameters returning, select, numbers, on_conflict and resolution.',
    );
  }
  const returning = readReturning(request);
  const isMany = Array.isArray(body);
  if (returning === 'row' && request.own.get('resolution') === 'merge') call.access.checkReading();
  const insert = {
    onConflict: request.own.get('on_conflict')?.split(',') ?? null,
    resolution: readWord(request.own, 'resolution', ['merge', 'ignore']),
    returning,
    select: request.select,
  };
  const compile = (table: Table) =>
    runSlices(body, withJsonTexts(table, body, bytes, compilingInsert(table, body, insert)));
  const form = returning === 'minimal' ? countForm : isMany ? rowsForm : rowForm;
  return change(deps, call, { request, compile, form, maxAffected: null });
}

export async function updateRows(deps: TableDeps, call: TableCall, sent: SentRows): Promise<Changed> {
  const body = await sent.parse();
  const compile = (table: Table, request: ChangeRequest, returning: Returning) => {
    const compiling = compilingUpdate(table, body, request, returning);
    return runSlices(body, withJsonTexts(table, body, sent.bytes, compiling));
  };
  return changeFiltered(deps, call, compile);
}

export function deleteRows(deps: TableDeps, call: TableCall): Promise<Changed> {
  return changeFiltered(deps, call, compileDelete);
}

async function changeFiltered(
  deps: TableDeps,
  call: TableCall,
  compile: (
    table: Table,
    request: ChangeRequest,
    returning: Returning,
  ) => CompiledWrite | Promise<CompiledWrite>,
): Promise<Changed> {
  const request = readChangeRequest(call.rawQuery, ['returning', 'max_affected']);
  const returning = readReturning(request);
  if (returning === 'row') call.access.checkReading();
  const maxAffected = readMaxAffected(request);
  const form = returning === 'minimal' ? countForm : rowsForm;
  const compileOne = async (table: Table) => [await compile(table, request, returning)];
  return change(deps, call, { request, compile: compileOne, form, maxAffected });
}

/** null: no other table can change what a statement on this one runs without a new plan, as foreign keys and partitions can. */
function relationOf(table: Table | undefined): string | null {
  if (!table || (table.references.length === 0 && table.kind !== 'partitioned')) return null;
  return `${sql.id(table.schema).text}.${sql.id(table.name).text}`;
}

function change(
  deps: TableDeps,
  { project, name, reader, access }: TableCall,
  { request, compile, form, maxAffected }: Change,
): Promise<Changed> {
  const { timeoutMs, check, maySee } = access;
  const tables = tablesOf(deps, project, maySee);
  const make = async (): Promise<Writes> => {
    const table = await tables.get(name);
    // Before the body is checked: its errors would reveal columns of a table that the caller may not use.
    check([table]);
    const seesWhole = project.actingUser === undefined && maySee === seesAll;
    const unknown = seesWhole ? null : unknownName(request, table, new Map());
    if (unknown) throw unknown;
    return { tables: [table], writes: await compile(table) };
  };
  const run = async ({ writes, tables: [written] }: Writes): Promise<Changed> => {
    let isNew = false;
    let rowCount = 0;
    let described = '';
    const onClose = (exchange: Result) => {
      rowCount += exchange.rowCount;
      if (affectedBy(exchange) > 0) isNew = true;
      // With numbers as strings, only the types tell them apart from text.
      if (request.numbersAsStrings && exchange.shape) described = `,${exchange.shape.columns}`;
      return described;
    };
    const hidesRowTypes = maySee !== seesAll && written !== undefined && hasRowTypes([written]);
    const step = (write: CompiledWrite, made: Form): Step => ({
      statement: statementOf(tables.cache, write.text, {
        isPlain: write.isPlain,
        code: written?.code ?? null,
        writes: true,
        isDelete: write.input.verb === 'delete',
        isInsert: write.input.verb === 'insert',
        insert: write.insert,
        rowKey: write.rowKey,
        relation: relationOf(written),
      }),
      input: { query: write.text, params: write.params, limit: null, bigAsString: request.numbersAsStrings },
      form: hidesRowTypes ? { ...made, layout: objectsWithoutRowTypes } : made,
    });
    const [only] = writes;
    if (only && writes.length === 1) {
      const { statement, input, form: whole } = step(only, form(only.hidden, 'whole', onClose));
      const task = { statement, input, form: whole, timeoutMs, maxAffected, readOnly: false };
      return { answer: await runCompiled(deps.query, project, task, reader), isNew };
    }
    const steps = writes.map((write) => step(write, form(write.hidden, 'part', onClose)));
    const parts = await runTogether(deps.query, project, steps, { timeoutMs, maxAffected }, reader);
    return { answer: joinParts(form, parts, rowCount, described), isNew };
  };
  const explainMade = (error: unknown, made: Writes) => explain(error, made, request, project, maySee);
  return withTables(tables, make, run, reader, explainMade);
}

/** Values for json columns are stored as they were sent. */
function* withJsonTexts<T>(table: Table, body: unknown, bytes: Buffer, compiling: Slices<T>): Slices<T> {
  const names = jsonColumns(table);
  const rows = Array.isArray(body) ? body : [body];
  // What is not a row is refused when it is compiled.
  if (names.size > 0 && rows.every(isJsonObject)) yield* keepJsonTexts(rows, names, bytes);
  return yield* compiling;
}

const noNames: ReadonlySet<string> = new Set();

function jsonColumns({ columns }: Table): ReadonlySet<string> {
  let names: Set<string> | null = null;
  for (const column of columns.values())
    if (isJsonText(column)) names = (names ?? new Set()).add(column.name);
  return names ?? noNames;
}

/** Compiles a small body at once; for a large one, other requests get turns in between. */
function runSlices<T>(body: unknown, slices: Slices<T>): T | Promise<T> {
  return isLarge(body) ? inTurns(slices) : atOnce(slices);
}

/** Callers do not see that a body became several statements: errors name rows by their index in the body. */
function explain(
  error: unknown,
  { tables, writes }: Writes,
  { select, where }: ChangeRequest,
  { actingUser }: ProjectLogin,
  maySee: MaySee,
): unknown {
  if (!(error instanceof RowhouseError)) return error;
  const { statement = 0 } = (error.details ?? {}) as { statement?: number };
  const write = writes[statement];
  const [table] = tables;
  if (!write || !table || !error.sql) return error;
  const context = contextOf(error);
  const refused = actingUser ? explainRefusal(error, table, write.input.verb, actingUser.role) : error;
  const explained = explainWriteError(refused, write, context);
  const isExplained = explained.message !== error.message;
  const filtered = { table, select, where, params: write.params };
  const final = isExplained ? explained : explainFilterError(explained, filtered, context);
  return withoutHidden(error, final, tables, maySee);
}

/** How a statement's result is written. `onClose` sees its end and returns JSON that describes the columns, or ''. */
type RowsForm = (hidden: number, what: 'whole' | 'part', onClose: (exchange: Result) => string) => Form;

const openings = {
  row: Buffer.from('{"ok":true,"row":'),
  rows: Buffer.from('{"ok":true,"rows":['),
  count: Buffer.from('{"ok":true,'),
  none: Buffer.alloc(0),
};

const rowForm: RowsForm = (hidden, _what, onClose) => ({
  opening: openings.row,
  hasHead: false,
  hasRows: true,
  hidden,
  onLastRow: null,
  close: (exchange) => {
    const described = onClose(exchange);
    return `${exchange.rowCount === 0 ? 'null' : ''}${described}}`;
  },
});

const rowsForm: RowsForm = (hidden, what, onClose) => ({
  opening: what === 'whole' ? openings.rows : openings.none,
  hasHead: false,
  hasRows: true,
  hidden,
  onLastRow: null,
  close: (exchange) => {
    const described = onClose(exchange);
    return what === 'whole' ? `],"row_count":${exchange.rowCount}${described}}` : '';
  },
});

const countForm: RowsForm = (hidden, what, onClose) => ({
  opening: what === 'whole' ? openings.count : openings.none,
  hasHead: false,
  hasRows: false,
  hidden,
  onLastRow: null,
  close: (exchange) => {
    onClose(exchange);
    return what === 'whole' ? `"row_count":${affectedBy(exchange)}}` : String(affectedBy(exchange));
  },
});

/** Joins the results of several statements into one response. */
function joinParts(form: RowsForm, { held, parts }: Parts, rowCount: number, described: string): Answer {
  if (form === countForm) {
    const count = parts.reduce((sum, pieces) => sum + Number(Buffer.concat(pieces)), 0);
    return held.compose([Buffer.from(`{"ok":true,"row_count":${count}}`)]).close();
  }
  const rows = parts.filter((pieces) => pieces.some(({ length }) => length > 0));
  const pieces = rows.flatMap((part, index) => (index === 0 ? part : [comma, ...part]));
  const end = Buffer.from(`],"row_count":${rowCount}${described}}`);
  return held.compose([openings.rows, ...pieces, end]).close();
}

const comma = Buffer.from(',');

function readReturning({ own }: ChangeRequest): Returning {
  return readWord(own, 'returning', ['row', 'minimal']) ?? 'row';
}

function readMaxAffected({ own }: ChangeRequest): number | null {
  const text = own.get('max_affected');
  if (text === undefined) return null;
  if (!/^\d{1,15}$/.test(text)) {
    throw errors.invalidRequest([{ path: 'max_affected', problem: 'must be an integer of 0 or more' }]);
  }
  return Number(text);
}
