// rowhouse sql: a statement, a file, stdin, or an interactive shell.
import { text as readAll } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { splitStatements } from '@rowhouse/api/statements';
import { type Command, Option } from 'commander';
import { openRows, withApiOptions, withProjectOption } from '../api.ts';
import { failure } from '../failure.ts';
import { positive } from '../numbers.ts';
import { show } from '../output.ts';
import { projectOf } from '../profiles.ts';
import { formatResult } from '../sql-result.ts';
import { type RunOptions, readSqlFile, runScript, type Script } from '../sql-run.ts';
import { psql } from './psql.ts';

type SqlOptions = RunOptions & {
  project?: string;
  file?: string;
  psql?: boolean;
  output: 'table' | 'json' | 'csv' | 'jsonl';
};

/** How many rows a table for people shows. CSV and JSON lines are streamed, and have no limit. */
const maxTableRows = 10_000;

export function addSql(program: Command): void {
  withProjectOption(withApiOptions(program.command('sql [statement]')))
    .summary('run SQL, or open an interactive shell')
    .description(
      'Run SQL in a project: a statement, a file, or stdin. Several statements run in one transaction. Without any of them, ' +
        'an interactive shell opens. Needs a key with the scope query or query:read.',
    )
    .option('-f, --file <file>', 'run the statements of this file; -: stdin')
    .addOption(
      new Option('-o, --output <format>', 'how to print rows')
        .choices(['table', 'json', 'csv', 'jsonl'])
        .default('table'),
    )
    .option('--limit <number>', `most rows of a statement (default: ${maxTableRows} for a table)`, positive)
    .option('--read-only', 'refuse statements that write')
    .option('--timeout <seconds>', 'of the statements (default: 30)', positive)
    .option('--psql', 'use psql, which must be installed')
    .action(sql);
}

async function sql(statement: string | undefined, options: SqlOptions): Promise<void> {
  if (options.output === 'json') options.json = true;
  const slug = await projectOf(options);
  const isInteractive = statement === undefined && options.file === undefined && process.stdin.isTTY === true;
  if (options.psql) {
    const text = isInteractive ? [] : ['--set', 'ON_ERROR_STOP=1', ...psqlSource(statement, options.file)];
    return psql(text, { ...options, project: slug });
  }
  if (isInteractive) {
    const { openShell } = await import('../sql-shell.ts');
    return openShell(slug, { ...options, limit: options.limit ?? maxTableRows });
  }
  const script = await readScript(statement, options.file);
  if (options.output === 'csv' || options.output === 'jsonl') return printRows(slug, script, options);
  const limit = options.limit ?? (options.json ? undefined : maxTableRows);
  const results = await runScript(slug, script, { ...options, ...(limit !== undefined && { limit }) });
  show(options, results.length === 1 ? results[0] : { ok: true, results }, () =>
    results.map((result) => formatResult(result)).join('\n\n'),
  );
}

/** Streamed, whatever the size of the result. */
async function printRows(slug: string, script: Script, options: SqlOptions): Promise<void> {
  const [first, ...others] = splitStatements(script.text);
  if (!first || others.length > 0)
    throw failure('invalid_request', `--output ${options.output} takes exactly one statement.`);
  const { limit, readOnly, timeout } = options;
  const body = {
    query: first.text,
    ...(limit !== undefined && { limit }),
    ...(readOnly && { read_only: true }),
    ...(timeout !== undefined && { timeout_ms: timeout * 1000 }),
  };
  const format = options.output === 'csv' ? 'text/csv' : 'application/x-ndjson';
  const rows = await openRows(options, 'POST', ['projects', slug, 'query'], format, { body });
  // Another command of the same script may write to it next.
  await pipeline(rows, process.stdout, { end: false }).catch((error: unknown) => {
    throw failure('broken_off', `The rows broke off before they were complete: ${(error as Error).message}.`);
  });
}

async function readScript(statement: string | undefined, file: string | undefined): Promise<Script> {
  if (statement !== undefined && file !== undefined)
    throw failure('invalid_request', 'Pass a statement or --file, not both.');
  if (statement !== undefined) return { text: statement };
  if (file === undefined || file === '-') return { text: await readAll(process.stdin) };
  return { text: readSqlFile(file), name: file };
}

function psqlSource(statement: string | undefined, file: string | undefined): string[] {
  if (statement !== undefined) return ['--command', statement];
  return file === undefined || file === '-' ? [] : ['--file', file];
}
