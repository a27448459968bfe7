// Rewrites PostgreSQL's errors about writes so that they name the offending value or constraint. Code, status and
// PostgreSQL's fields stay; only data exceptions (class 22) always become `constraint_violation`, which is 422.
import type { ErrorCode } from '@rowhouse/api';
import { RowhouseError } from '../../errors/errors.ts';
import { inherit, wasRaised } from '../../query/exchange/failures.ts';
import { ExactNumber } from '../../query/json/json-text.ts';
import { isLarge } from '../../query/json/large-json.ts';
import type { Column, Reference, Table } from '../catalog/catalog.ts';
import { shorten } from '../request/scanner.ts';
import { type Culprit, findCulprit } from './culprits.ts';
import type { CompiledWrite, WriteInput } from './statement.ts';

type Wording = Readonly<{ message: string; hint?: string; details?: Record<string, unknown> }>;

/** `where`: PostgreSQL's CONTEXT, which names the parameter it could not read. It is not passed on to the caller. */
export function explainWriteError(
  error: RowhouseError,
  compiled: CompiledWrite,
  where?: string,
): RowhouseError {
  const state = error.sql?.state;
  const [table] = compiled.tables;
  if (state === undefined || !table || wasRaised(error)) return error;
  const wording = state.startsWith('23')
    ? explainConstraint(error, table, compiled.input, where)
    : explainValue(error, compiled, where);
  return reword(error, { ...wording, ...(state.startsWith('22') && { code: 'constraint_violation' }) });
}

/** The same error with another message, hint or details. Drops the position, which refers to compiled SQL. */
export function reword(
  error: RowhouseError,
  wording: Partial<Wording> & { code?: ErrorCode },
): RowhouseError {
  const { code = error.code, message = error.message, hint = error.hint } = wording;
  const { position: _ours, ...sql } = error.sql ?? {};
  const details = { ...(error.details as object | undefined), ...wording.details };
  const reworded = new RowhouseError(code, message, {
    ...(code === error.code && { status: error.status }),
    ...(error.sql && { sql }),
    ...(hint !== undefined && { hint }),
    ...(Object.keys(details).length > 0 && { details }),
    ...(error.retryAfterS !== undefined && { retryAfterS: error.retryAfterS }),
    cause: error.cause,
  });
  return inherit(reworded, error);
}

function explainConstraint(
  error: RowhouseError,
  table: Table,
  input: WriteInput,
  where: string | undefined,
): Wording | null {
  const { state, constraint, column, schema, table: name } = error.sql ?? {};
  const isHere = name === table.name && schema === table.schema;
  switch (state) {
    case '23502':
      return isHere && column !== undefined ? notNull(column, input) : explainDomain(error, input, where);
    case '23505':
      return isHere ? unique(error, table, input) : null;
    case '23503':
      return foreignKey(error, table, input);
    case '23514':
      if (constraint === undefined) return null;
      if (!isHere) return explainDomain(error, input, where);
      return {
        message: `The row violates the check constraint "${constraint}" of "${table.name}".`,
        details: { constraint },
      };
    case '23P01':
      if (!isHere || constraint === undefined) return null;
      return {
        message: `The row conflicts with an existing row (exclusion constraint "${constraint}").`,
        details: { constraint },
      };
    default:
      return null;
  }
}

function notNull(name: string, { columns, verb, rows, firstIndex }: WriteInput): Wording {
  const isGiven = columns.some((column) => column.name === name);
  const position = rows.findIndex((row) => row[name] === null);
  const index = !isGiven || firstIndex === null || position < 0 ? null : firstIndex + position;
  const message = isGiven
    ? `"${name}" must not be null.`
    : `"${name}" is required: it must not be null${verb === 'insert' ? ' and has no default' : ''}.`;
  return { message: rowOf(index) + message, details: { columns: [name], ...(index !== null && { index }) } };
}

/** The constraint belongs to a domain: PostgreSQL does not name the column. */
function explainDomain(error: RowhouseError, input: WriteInput, where: string | undefined): Wording | null {
  const culprit = findCulprit(error.sql?.state ?? '', error.message, where, input);
  if (!culprit) return null;
  const { constraint } = error.sql ?? {};
  return {
    message: `${nameOf(culprit)} does not accept ${show(culprit.value)}: ${shortened(error.message)}`,
    details: { ...detailsOf(culprit), ...(constraint !== undefined && { constraint }) },
  };
}

function unique(error: RowhouseError, table: Table, { verb }: WriteInput): Wording {
  const { constraint, detail } = error.sql ?? {};
  const key = [table.primaryKey, ...table.uniques].find((names) => isKeyOf(names, detail ?? ''));
  const what = key ? `this ${list(key)}` : 'these values';
  return {
    message: `A row with ${what} already exists${constraint === undefined ? '' : ` ("${constraint}")`}.`,
    ...(verb === 'insert' &&
      key && {
        hint: `To update that row, send on_conflict=${key.join(',')} with resolution=merge. To keep it, send resolution=ignore.`,
      }),
    details: { ...(constraint !== undefined && { constraint }), ...(key && { columns: key }) },
  };
}

/** PostgreSQL writes `Key (a, "B")=(1, 2) already exists.` and quotes names only where needed. */
function isKeyOf(names: readonly string[], detail: string): boolean {
  let at = 'Key ('.length;
  for (const [index, name] of names.entries()) {
    if (index > 0) at += ', '.length;
    const quoted = `"${name.replaceAll('"', '""')}"`;
    const found = [quoted, name].find((text) => detail.startsWith(text, at));
    if (found === undefined) return false;
    at += found.length;
  }
  return names.length > 0 && detail.startsWith(')=(', at);
}

/** Either the row references one that does not exist, or other rows still reference it. */
function foreignKey(error: RowhouseError, table: Table, { verb }: WriteInput): Wording | null {
  const { constraint, schema, table: name, detail } = error.sql ?? {};
  if (constraint === undefined) return null;
  const isOfTable = name === table.name && schema === table.schema;
  const keys = table.references.filter((one) => one.name === constraint && !one.through);
  const own = isOfTable ? keys.find((one) => one.isOwn) : undefined;
  const others = keys.find((one) => !one.isOwn && one.target.name === name && one.target.schema === schema);
  // An update of a table that references itself can have both problems.
  if (own && others && verb === 'update') return null;
  if (own && verb !== 'delete') return missingReference(own, constraint, detail);
  if (!others) return null;
  return {
    message: `Rows of "${others.target.name}" still reference it by ${list(others.targetColumns)} ("${constraint}").`,
    hint: 'Change or delete those rows first.',
    details: { constraint, table: others.target.name, columns: others.targetColumns },
  };
}

function missingReference(
  { columns, target, targetColumns }: Reference,
  constraint: string,
  detail?: string,
): Wording {
  return {
    message: `${list(columns)} must reference ${list(targetColumns)} of an existing row of "${target.name}" ("${constraint}").`,
    ...(detail !== undefined && { hint: shortened(detail) }),
    details: { constraint, columns, table: target.name },
  };
}

function explainValue(
  error: RowhouseError,
  { input, ...compiled }: CompiledWrite,
  where: string | undefined,
): Wording | null {
  const state = error.sql?.state ?? '';
  if (state === '21000' && input.rows.length > 1) {
    return {
      message: 'Two of the rows have the same key.',
      hint: 'Send only one row for each key.',
    };
  }
  const culprit = findCulprit(state, error.message, where, input);
  // If the filter contains the same value, the error may be about the filter.
  if (!culprit || (where === undefined && isInFilter(culprit, input, compiled.params))) return null;
  const { column, value } = culprit;
  const subject = nameOf(culprit);
  const details = detailsOf(culprit);
  if (state === '22P05')
    return { message: `${subject} contains a NUL character, which PostgreSQL does not support.`, details };
  const isScalar = typeof value !== 'object' || value instanceof ExactNumber;
  if (state === '22001' && isScalar) {
    return {
      message: `${subject} is too long for ${column.type}: it has ${countOf(String(value))} characters.`,
      details,
    };
  }
  const expected = expectation(column);
  const says = isScalar && selfExplanatory.has(state) ? '.' : `: ${shortened(error.message)}`;
  const failure = state === '22003' ? `is out of range for ${column.type}` : `does not fit ${column.type}`;
  return {
    message: `${subject}: ${show(value)} ${failure}${says}`,
    ...(expected && { hint: expected }),
    details,
  };
}

const selfExplanatory = new Set(['22P02', '22003', '22007', '22008']);

/** Not counted for large texts: other requests would have to wait. */
function countOf(text: string): string {
  return isLarge(text) ? 'very many' : String([...text].length);
}

function isInFilter({ value }: Culprit, { parameters }: WriteInput, params: readonly unknown[]): boolean {
  if (typeof value === 'object' && !(value instanceof ExactNumber)) return false;
  const text = value instanceof ExactNumber ? value.text : String(value);
  return (
    parameters.length > 1 && parameters.some((column, index) => column === null && params[index] === text)
  );
}

function nameOf({ column, index }: Culprit): string {
  return `${rowOf(index)}"${column.name}"`;
}

function rowOf(index: number | null): string {
  return index === null ? '' : `Row ${index + 1}: `;
}

function detailsOf({ column, index }: Culprit): Record<string, unknown> {
  return { columns: [column.name], type: column.type, ...(index !== null && { index }) };
}

function list(names: readonly string[]): string {
  return names.map((name) => `"${name}"`).join(', ');
}

function show(value: unknown): string {
  if (value instanceof ExactNumber) return shortened(value.text);
  if (typeof value === 'string') return JSON.stringify(shorten(value));
  if (typeof value !== 'object' || value === null) return String(value);
  return Array.isArray(value) ? 'the array' : 'the object';
}

/** Keeps error messages readable. */
function shortened(text: string): string {
  return text.length > 300 ? `${text.slice(0, 300)}…` : text;
}

const forms = new Map([
  ['boolean', 'true or false'],
  ['smallint', 'an integer from -32768 to 32767'],
  ['integer', 'an integer from -2147483648 to 2147483647'],
  ['bigint', 'an integer from -9223372036854775808 to 9223372036854775807'],
  ['date', 'a date such as 2026-11-15'],
  ['timestamp', 'a date and time such as 2026-11-15T09:30:00Z'],
  ['time', 'a time of day such as 09:30:00'],
  ['uuid', 'a UUID such as 123e4567-e89b-12d3-a456-426614174000'],
  ['bytea', 'bytes in hexadecimal such as \\x00ff'],
]);

export function expectation({ type, enumValues, shape }: Column): string | null {
  if (shape.isArray) return 'Send a JSON array.';
  if (enumValues) return `Send one of ${shortened(enumValues.join(', '))}.`;
  if (shape.is === 'composite') {
    return `Send a JSON object with ${shortened(list(shape.fields.map(({ name }) => name)))}.`;
  }
  const form = forms.get(type.replace(/[ (].*$/, ''));
  return form === undefined ? null : `Send ${form}.`;
}
