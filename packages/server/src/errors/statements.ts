// Errors of statements, tables and rows.
import { clip, RowhouseError } from './rowhouse-error.ts';

/** PostgreSQL's limit for the name of a table or column. */
const maxNameBytes = 63;

export const statementErrors = {
  multipleStatements: (count: number) =>
    new RowhouseError('multiple_statements', `The query contains ${count} statements. Only one is allowed.`, {
      hint: 'Send one statement per request, or use POST …/batch to run several in one transaction.',
    }),
  statementNotAllowed: (message: string, hint: string) =>
    new RowhouseError('statement_not_allowed', message, { hint }),
  queryTimeout: (timeoutMs: number) =>
    new RowhouseError('query_timeout', `The statement was cancelled after ${timeoutMs} ms.`, {
      hint: 'It was rolled back, except for anything that a CALL or DO had already committed. Raise "timeout_ms", or make the statement do less.',
      details: { timeout_ms: timeoutMs },
    }),
  tooManyAffected: (affected: number, maxAffected: number) =>
    new RowhouseError(
      'conflict',
      `The statement affects ${affected} rows, but "max_affected" is ${maxAffected}.`,
      {
        hint: 'It was rolled back. Narrow the statement, or raise "max_affected".',
        details: { retryable: false, affected, max_affected: maxAffected },
      },
    ),
  /** `index`: the position of the statement in its batch. */
  unexpectedAffected: (affected: number, expected: number, index: number) =>
    new RowhouseError(
      'conflict',
      `The statement at index ${index} affects ${affected} rows, but its "expect_affected" is ${expected}.`,
      {
        hint: 'The whole batch was rolled back. Read the rows again: they may have changed since.',
        details: { retryable: false, affected, expect_affected: expected, statement: index },
      },
    ),
  resultTooLarge: (message: string) =>
    new RowhouseError('sql_error', message, {
      hint: 'Request less data: select fewer columns or rows, or cut long values with substr(…).',
    }),
  rowsNotShown: (cause: RowhouseError) =>
    new RowhouseError(
      'sql_error',
      `The change was committed, but its rows cannot be returned. ${cause.message}`,
      {
        hint: 'Do not send it again. Read the rows with a separate request. Next time, omit RETURNING.',
        cause,
      },
    ),
  queryNotFound: () =>
    new RowhouseError(
      'query_not_found',
      'The project has no such saved query, draft or entry of the history.',
      {
        hint: 'GET …/queries and GET …/history list them.',
      },
    ),
  queryChanged: (updatedAt: string) =>
    new RowhouseError('conflict', 'This query was changed since you read it. Nothing was overwritten.', {
      hint: 'Read it again, or omit "if_updated_at" to overwrite it.',
      details: { retryable: false, updated_at: updatedAt },
    }),
  queriesTooLarge: (maxMb: number) =>
    new RowhouseError('conflict', `The saved queries and drafts of the project would exceed ${maxMb} MB.`, {
      hint: 'Delete some first: DELETE …/queries/:id.',
      details: { retryable: false, max_mb: maxMb },
    }),
  tooManyQueries: (kind: string, max: number) =>
    new RowhouseError('conflict', `The project already has ${max} queries of the kind "${kind}".`, {
      hint: 'Delete some first: DELETE …/queries/:id.',
      details: { retryable: false, max },
    }),
  tableNotFound: (name: string, nearest: string | null) =>
    new RowhouseError('table_not_found', `The project has no table or view "${clip(name)}".`, {
      hint: nearest
        ? `Did you mean "${nearest}"?`
        : name.split('.').some((part) => Buffer.byteLength(part) > maxNameBytes)
          ? `PostgreSQL truncates names to ${maxNameBytes} bytes when it creates a table. Use the truncated name.`
          : 'List the tables with GET /api/dbaas/v2/projects/:slug/tables.',
      ...(nearest && { details: { nearest } }),
    }),
  /** `allowed`: the methods that this table accepts. */
  tableNotWritable: (message: string, hint: string, allowed: string[]) =>
    new RowhouseError('method_not_allowed', message, { hint, details: { allowed } }),
  /** `index`: the position of the row in the body; null for a single row. */
  columnsMissing: (table: string, columns: string[], index: number | null) => {
    const names = columns.slice(0, 10).map((name) => `"${name}"`);
    const more = columns.length > 10 ? ' and others' : '';
    const why =
      columns.length > 1
        ? 'they must not be null and have no default'
        : 'it must not be null and has no default';
    const row = index === null ? '' : `Row ${index + 1}: `;
    return new RowhouseError(
      'constraint_violation',
      `${row}${names.join(', ')}${more} of "${table}" ${columns.length > 1 ? 'are' : 'is'} required: ${why}.`,
      {
        hint: 'Nothing was inserted. Add a value to each row.',
        details: { columns, ...(index !== null && { index }) },
      },
    );
  },
};
