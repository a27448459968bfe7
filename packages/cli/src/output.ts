// Everything a command prints: results on stdout, as text or as JSON; failures and progress on stderr.
import { spinner } from '@clack/prompts';
import { paint } from './colour.ts';
import { formatCsv } from './csv.ts';
import { Failure, type FailureBody } from './failure.ts';
import { forCommandLine } from './hints.ts';
import { clean, formatJson } from './table.ts';

export type OutputOptions = {
  json?: boolean;
  rowsAs?: 'csv' | 'jsonl';
  /** A shell reads the terminal, which a spinner would read, too, and close. */
  isShell?: boolean;
};

const quietMs = 300;

/** Calls `text` only without --json. */
export function show<T>({ json }: OutputOptions, answer: T, text: (answer: T) => string): void {
  process.stdout.write(`${json ? formatJson(answer) : text(answer)}\n`);
}

/** A list: a table, JSON, CSV with a column for each field, or JSON lines. `empty` is said to people where the list has no entry. */
export function showList<T>(
  options: OutputOptions,
  answer: T,
  rows: readonly object[],
  { table, empty }: { table: () => string; empty: string },
): void {
  if (options.json) show(options, answer, () => '');
  else if (rows.length === 0) note(options, empty);
  else process.stdout.write(`${options.rowsAs ? formatRows(options.rowsAs, rows) : table()}\n`);
}

function formatRows(format: 'csv' | 'jsonl', rows: readonly object[]): string {
  if (format === 'csv') return formatCsv(rows as Record<string, unknown>[]);
  return rows.map((row) => formatJson(row, 0)).join('\n');
}

/** Prints to stderr, so that a program that reads stdout sees only the result. */
export function note({ json }: OutputOptions, text: string): void {
  if (!json) process.stderr.write(`${text}\n`);
}

/** Progress of work in the service: one changing line on a terminal, otherwise a line for each change. null ends it. */
export function progressOf({ json }: OutputOptions): (text: string | null) => void {
  if (json) return () => {};
  let last: string | null = null;
  const { stderr } = process;
  return (text) => {
    if (text === last) return;
    last = text;
    const line = text === null ? '' : clean(text);
    if (stderr.isTTY) stderr.write(`\r\x1b[K${line.slice(0, Math.max(20, (stderr.columns ?? 80) - 1))}`);
    else if (text !== null) stderr.write(`${line}\n`);
  };
}

export function showFailure({ json }: OutputOptions, thrown: unknown): void {
  const body = thrown instanceof Failure ? thrown.body : unexpected(thrown);
  if (json) process.stdout.write(`${formatJson(body)}\n`);
  else process.stderr.write(`${explain(body)}\n`);
}

/** Shows a spinner on a terminal while work takes longer than `quietMs`. It erases the spinner afterwards. */
export async function waiting<T>(
  { json, isShell }: OutputOptions,
  label: string,
  work: Promise<T>,
): Promise<T> {
  if (json || isShell || !process.stdout.isTTY || !process.stderr.isTTY) return work;
  const interrupted = () => {
    process.exitCode = 130;
  };
  const sign = spinner({
    output: process.stderr,
    withGuide: false,
    cancelMessage: 'Interrupted.',
    onCancel: () => process.exit(130),
  });
  const timer = setTimeout(() => {
    sign.start(clean(label));
    // While it spins, Ctrl-C is an ordinary key, and the spinner would end the process with status 0.
    process.on('exit', interrupted);
  }, quietMs);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
    sign.clear();
    process.off('exit', interrupted);
  }
}

function explain({ error, request_id: requestId }: FailureBody): string {
  const { stderr } = process;
  const lines = [paint(stderr, 'red', clean(error.message))];
  for (const line of error.excerpt ?? []) lines.push(`  ${clean(line.replaceAll('\t', ' '))}`);
  if (error.hint) lines.push(`→ ${clean(forCommandLine(error.hint))}`);
  if (requestId) lines.push(paint(stderr, 'dim', clean(`(${error.code}, request ${requestId})`)));
  return lines.join('\n');
}

function unexpected(thrown: unknown): FailureBody {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return { ok: false, error: { code: 'internal_error', message: `The command failed: ${message}` } };
}
