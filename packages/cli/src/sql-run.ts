// Runs SQL in a project: one statement, or several in one transaction. Where PostgreSQL refuses, the place is shown.
import { readFileSync } from 'node:fs';

import type { BatchResponse, QueryResponse, RunBatch, RunQuery } from '@rowhouse/api';
import { splitStatements } from '@rowhouse/api/statements';
import { type ApiOptions, callApi } from './api.ts';
import { Failure, failure } from './failure.ts';

export type RunOptions = ApiOptions & {
  limit?: number;
  readOnly?: boolean;
  timeout?: number;
  signal?: AbortSignal;
};
export type Result = BatchResponse['results'][number];
/** `name`: a file, for messages. */
export type Script = { text: string; name?: string };

/** A result can be as large as the memory of this process, so there are limits for people. */
const moreMs = 10_000;
export const maxStatements = 1000;

/** All statements take effect, or none. */
export async function runScript(slug: string, script: Script, options: RunOptions): Promise<Result[]> {
  const statements = splitStatements(script.text);
  const [first, ...others] = statements;
  if (!first) throw failure('invalid_request', `${script.name ?? 'The text'} contains no statement.`);
  const { limit, readOnly, timeout, signal } = options;
  const shared = {
    ...(readOnly && { read_only: true }),
    ...(timeout !== undefined && { timeout_ms: timeout * 1000 }),
    // A JSON number would be rounded here.
    numbers: 'string' as const,
  };
  const sent = {
    // The service gives up first, and says why.
    ...(timeout !== undefined && { timeoutMs: timeout * 1000 + moreMs }),
    ...(signal && { signal }),
  };
  const ofOne = (query: string) => ({ query, ...(limit !== undefined && { limit }) });
  try {
    if (others.length === 0) {
      const body: RunQuery = { ...ofOne(first.text), ...shared };
      return [await callApi<QueryResponse>(options, 'POST', ['projects', slug, 'query'], { body, ...sent })];
    }
    if (statements.length > maxStatements) throw tooMany(script, statements.length);
    const body: RunBatch = { statements: statements.map(({ text }) => ofOne(text)), ...shared };
    const path = ['projects', slug, 'batch'];
    return (await callApi<BatchResponse>(options, 'POST', path, { body, ...sent })).results;
  } catch (error) {
    throw withPlace(error, script, 0);
  }
}

export function readSqlFile(file: string): string {
  try {
    // A byte order mark is no SQL.
    return readFileSync(file, 'utf8').replace(/^\ufeff/, '');
  } catch (error) {
    throw failure('not_readable', `The file cannot be read: ${(error as Error).message}.`);
  }
}

/** Names the line of the statement that failed. `skipped`: statements of ours that were sent before those of the script. */
export function withPlace(error: unknown, { text, name }: Script, skipped: number): unknown {
  if (!(error instanceof Failure)) return error;
  const { sql, details, message, ...rest } = error.body.error;
  const index = ((details as { statement?: number } | undefined)?.statement ?? skipped) - skipped;
  const statement = splitStatements(text)[index];
  if (!statement || !sql) return error;
  // PostgreSQL counts characters, JavaScript units of UTF-16.
  const before = sql.position ? [...statement.text].slice(0, sql.position - 1).join('').length : 0;
  const place = statement.from + before;
  const line = text.slice(0, place).split('\n').length;
  const start = text.lastIndexOf('\n', place - 1) + 1;
  const shown = text.slice(start, (text.indexOf('\n', place) + 1 || text.length + 1) - 1);
  const where = name ? `${name}:${line}` : `line ${line}`;
  const excerpt = sql.position ? [shown.slice(0, 200), `${' '.repeat(place - start)}^`] : [];
  return new Failure({
    ...error.body,
    error: { ...rest, message: `${where}: ${message}`, excerpt, details, sql },
  });
}

function tooMany({ name }: Script, count: number): Failure {
  return failure(
    'invalid_request',
    `${name ?? 'The text'} has ${count} statements. At most ${maxStatements} run in one transaction.`,
    'Split it, insert many rows with one statement, or run it with psql: rowhouse psql -- --file <file>',
  );
}
