// Imports a stream of CSV or JSON lines through PostgreSQL's COPY: all rows or none, with only a few pieces of the
// stream in memory.

import { errors, RowhouseError } from '../../errors/errors.ts';
import type { ServerError } from '../../postgres/wire/server-error.ts';
import { closing, ownSize, withHeadroom } from '../../query/admission.ts';
import type { Command } from '../../query/exchange/commands.ts';
import { inherit, StatementFailed } from '../../query/exchange/failures.ts';
import type { Reader } from '../../query/exchange/reader.ts';
import { sqlFailure } from '../../query/exchange/sql-failure.ts';
import type { QueryDeps } from '../../query/run.ts';
import { type ExclusiveSession, withSession } from '../../query/sessions/exclusive.ts';
import type { ProjectLogin } from '../../servers/databases/login.ts';
import {
  alwaysChanging,
  type Column,
  findTables,
  meansTableChanged,
  type Table,
  type TypeShape,
} from '../catalog/catalog.ts';
import { getColumn, guard, id, nameOf } from '../sql/expressions.ts';
import { openCsv, refuseEndMarks } from './csv.ts';
import { openJsonLines } from './json-lines.ts';

export type ImportFormat = 'csv' | 'json-lines';

type Import = Readonly<{
  project: ProjectLogin;
  /** May be outdated: it is checked again in the session. */
  table: Table;
  format: ImportFormat;
  body: AsyncIterable<Buffer>;
  reader: Reader;
}>;

export type ImportOptions = Readonly<{
  timeoutMs: number;
  /** How long the client may send nothing. This time does not count towards the statement's deadline. */
  stallMs?: number;
  /** Called when the rows begin to go to PostgreSQL. */
  onBegin?: () => void;
}>;

const defaultStallMs = 30_000;
const maxAttempts = 3;

/**
 * After a failure no more of `body` is read, and its iterator is not closed: its owner may still have to respond on the
 * same connection.
 */
export async function importRows(
  deps: QueryDeps,
  { project, table, format, body, reader }: Import,
  { timeoutMs, stallMs = defaultStallMs, onBegin }: ImportOptions,
): Promise<{ rowCount: number }> {
  if (project.actingUser) throw notForUsers();
  // Before a session is taken: a client that is slow to send the first line must not occupy one.
  const rows = await openRows[format](withStallLimit(body, stallMs));
  // Cannot be repeated, because the body is a stream. Long enough to be measured at its end even far from the limit.
  const growth = {
    canRepeat: false,
    canCommit: false,
    alwaysMeasured: true,
    changes: false,
    isUndone: false,
    canShrink: false,
    adds: true,
    isHarmless: false,
  };
  return withHeadroom(deps.admission, { project, growth, reader }, (measure, supervise) =>
    withSession(deps, project, { reader, timeoutMs, use: 'any', supervise }, async (exclusive) => {
      const own = await ownSize(exclusive, measure);
      for (let attempt = 1; ; attempt++) {
        const current = await findCurrent(exclusive, table, attempt > 1);
        onBegin?.();
        const rowCount = await copyOnce(exclusive, current, rows, closing(measure, own));
        if (rowCount !== null) return { rowCount };
        await exclusive.command('rollback');
        if (attempt === maxAttempts)
          throw new StatementFailed(alwaysChanging(table, 'No row was imported. Retry later.'), 'idle');
      }
    }),
  );
}

/** The column names of a body, and its rows for COPY. */
type Rows = {
  names: readonly string[];
  /** Where the names are, for error messages. */
  path: string;
  format: 'csv' | 'text';
  /** Lines of the body that are not sent to PostgreSQL. */
  linesBefore: number;
  bytes(columns: readonly Column[], serverMajor: number): AsyncIterable<Buffer>;
};

const openRows: Record<ImportFormat, (body: AsyncIterable<Buffer>) => Promise<Rows>> = {
  csv: async (body) => {
    const { names, lines, rest } = await openCsv(body);
    return {
      names,
      path: 'the header line',
      format: 'csv',
      linesBefore: lines,
      bytes: (_columns, serverMajor) => (serverMajor < 18 ? refuseEndMarks(rest, lines + 1) : rest),
    };
  },
  'json-lines': async (body) => {
    const { names, rows } = await openJsonLines(body);
    return {
      names,
      path: 'line 1',
      format: 'text',
      linesBefore: 0,
      bytes: (columns) =>
        rows(
          columns.map(({ name, shape }) => ({
            name,
            isJson: shape.is === 'json' || shape.is === 'jsonb',
            isArray: shape.isArray,
            isInteger: shape.isInteger === true,
            ...(shape.is === 'composite' && { record: shape }),
          })),
        ),
    };
  },
};

/** null: the table has changed since its description was read, and no row of the body was consumed. */
async function copyOnce(
  exclusive: ExclusiveSession,
  table: Table,
  rows: Rows,
  after: readonly Command[],
): Promise<number | null> {
  const columns = chooseColumns(table, rows);
  const list = columns.map(({ name }) => id(name)).join(', ');
  let hasChanged = false;
  try {
    return await exclusive.copy(
      {
        // With the lock that COPY takes anyway, the table stays as the guard found it: changes of columns, triggers and
        // defaults need a stronger lock.
        before: [
          ...(table.kind === 'table' || table.kind === 'partitioned'
            ? [`lock table only ${nameOf(table)} in row exclusive mode`]
            : []),
          `select ${[guard(table), ...recordGuards(columns)].join(' and ')}`,
        ],
        text: `copy ${nameOf(table)} (${list}) from stdin (format ${rows.format})`,
        after,
        source: rows.bytes(columns, exclusive.serverMajor),
        explain: (error, hasBegun) => {
          // Before the first row, only compiled SQL has run.
          hasChanged = !hasBegun && meansTableChanged(error.state, error.where);
          return explain(error, hasBegun, table, rows.linesBefore);
        },
      },
      leavesOf(table),
    );
  } catch (error) {
    if (hasChanged && error instanceof StatementFailed) return null;
    throw error;
  }
}

/** A composite type can change without a new version of the table. */
function recordGuards(columns: readonly Column[]): string[] {
  const guards = new Set<string>();
  const collect = ({ relation, fields }: TypeShape) => {
    if (relation) guards.add(guard(relation));
    for (const { shape } of fields) collect(shape);
  };
  for (const { shape } of columns) collect(shape);
  return [...guards];
}

export function leavesOf({
  isPlainToWrite,
  usesSequences,
  references,
}: Table): 'plain' | 'sequences' | 'rows' {
  // Referenced tables can change without a new version of this table.
  if (!isPlainToWrite || references.length > 0) return 'rows';
  return usesSequences ? 'sequences' : 'plain';
}

/**
 * The table of that name as it is now; `table` itself if its version is unchanged and it is not known to have changed.
 */
async function findCurrent(exclusive: ExclusiveSession, table: Table, hasChanged: boolean): Promise<Table> {
  const ask = (query: string, parameters: string[]) => exclusive.ask(query, parameters);
  const answer = await ask(currentVersion, [nameOf(table)]);
  const { oid, version } = JSON.parse(answer ?? '{}') as { oid: number | null; version: string | null };
  if (!hasChanged && oid === table.oid && version === table.version) return table;
  const [found] = oid === null ? [] : await findTables(ask, [oid]);
  if (found) return found;
  const name = table.schema === 'public' ? table.name : `${table.schema}.${table.name}`;
  throw new StatementFailed(errors.tableNotFound(name, null), 'idle');
}

const currentVersion = `
  select pg_catalog.json_build_object('oid', found.oid::pg_catalog.int8, 'version', rowhouse.version_of(found.oid))
  from (select pg_catalog.to_regclass($1)::pg_catalog.oid) as found (oid)`;

function chooseColumns(table: Table, { names, path }: Rows): Column[] {
  try {
    if (table.kind === 'materialized_view') throw notForImports(table);
    return names.map((name) => {
      const column = getColumn({ table, alias: '' }, name, path);
      const problem = column.generated
        ? `column "${name}" is generated and cannot be set`
        : column.identity === 'always'
          ? `column "${name}" is an identity column (generated always) and cannot be set`
          : null;
      if (problem) throw errors.invalidRequest([{ path, problem }], 'Omit the column.');
      return column;
    });
  } catch (error) {
    // Not a failure of the session, which stays usable.
    throw error instanceof RowhouseError ? new StatementFailed(error, 'idle') : error;
  }
}

const wrongObjectType = '42809';
const notSupported = '0A000';

function explain(error: ServerError, hasBegun: boolean, table: Table, linesBefore: number): RowhouseError {
  // An error raised by a trigger has a CONTEXT.
  if (error.state === wrongObjectType && error.where === undefined) return notForImports(table);
  // A position would refer to compiled SQL.
  const { position: _ours, ...fields } = error;
  const failure = sqlFailure(fields);
  const { code, message, status, sql, details } = failure;
  const position = findPosition(error.where ?? '', table);
  const hint =
    !hasBegun && error.state === notSupported
      ? sendArray
      : 'No row was imported. Correct the data and send all rows again.';
  if (!position)
    return inherit(new RowhouseError(code, message, { status, details, hint, ...(sql && { sql }) }), failure);
  const line = position.line + linesBefore;
  const column = position.column === null ? '' : `, column "${position.column}"`;
  const placed = new RowhouseError(code, `Line ${line}${column}: ${message}`, {
    status,
    hint,
    ...(sql && { sql }),
    details: { ...(details as object | undefined), line, ...(column && { column: position.column }) },
  });
  return inherit(placed, failure);
}

/**
 * PostgreSQL names the position only in its CONTEXT, `COPY t, line 3, column price: "abc"`, after the lines of
 * triggers. Names are not quoted there, so they are matched against the table's columns.
 */
function findPosition(
  where: string,
  { name, columns }: Table,
): { line: number; column: string | null } | null {
  const start = `COPY ${name}, line `;
  const at = where.startsWith(start) ? 0 : where.lastIndexOf(`\n${start}`) + 1;
  if (!where.startsWith(start, at)) return null;
  const [digits = ''] = /^\d{0,15}/.exec(where.slice(at + start.length)) ?? [];
  if (digits === '') return null;
  const rest = where.slice(at + start.length + digits.length);
  let column: string | null = null;
  for (const one of columns.keys()) {
    if (rest.startsWith(`, column ${one}: `) && one.length > (column?.length ?? 0)) column = one;
  }
  return { line: Number(digits), column };
}

const sendArray = 'Send the rows as a JSON array, which is inserted instead of copied.';

/** COPY FROM does not support row security. */
function notForUsers(): RowhouseError {
  return errors.invalidRequest(
    [{ path: '', problem: 'an import cannot act as a user or as anon' }],
    sendArray,
  );
}

function notForImports(table: Table): RowhouseError {
  return errors.invalidRequest(
    [
      {
        path: '',
        problem: `rows cannot be imported into "${table.name}"; only tables and views with an INSTEAD OF INSERT trigger support it`,
      },
    ],
    table.can.insert ? sendArray : 'Import into the underlying tables.',
  );
}

/** Throws if a piece does not arrive in time. If the client disconnects, the body itself fails. */
async function* withStallLimit(body: AsyncIterable<Buffer>, stallMs: number): AsyncGenerator<Buffer, void> {
  const pieces = body[Symbol.asyncIterator]();
  for (;;) {
    const { value, done } = await inTime(() => pieces.next(), stallMs);
    if (done) return;
    yield value;
  }
}

function inTime<T>(start: () => Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout;
  return new Promise<T>((resolve, reject) => {
    timer = setTimeout(() => reject(errors.requestTimeout()), ms).unref();
    start().then(resolve, reject);
  }).finally(() => clearTimeout(timer));
}
