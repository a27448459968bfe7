// Everything a command prints: answers on stdout, as text for people or as JSON; failures and waiting on stderr.
import { spinner } from '@clack/prompts';
import { Failure, type FailureBody } from './failure.ts';
import { clean, formatJson } from './table.ts';

export type OutputOptions = { json?: boolean };

const quietMs = 300;

/** `text` is asked for only where a person reads. */
export function show<T>({ json }: OutputOptions, answer: T, text: (answer: T) => string): void {
  process.stdout.write(`${json ? formatJson(answer) : text(answer)}\n`);
}

/** Beside the answer, where it does not disturb a program that reads it. */
export function note({ json }: OutputOptions, text: string): void {
  if (!json) process.stderr.write(`${text}\n`);
}

/** For work that goes on elsewhere: one line that changes on a terminal, a line for each change otherwise. null: over. */
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

/** A sign of life on a terminal while something takes longer than a moment. It leaves nothing behind. */
export async function waiting<T>({ json }: OutputOptions, label: string, work: Promise<T>): Promise<T> {
  if (json || !process.stdout.isTTY || !process.stderr.isTTY) return work;
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
    // While it turns, Ctrl-C is a key like others, and the spinner would end the process as if all were well.
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
  const lines = [clean(error.message)];
  if (error.hint) lines.push(`→ ${clean(error.hint)}`);
  if (requestId) lines.push(clean(`(${error.code}, request ${requestId})`));
  return lines.join('\n');
}

function unexpected(thrown: unknown): FailureBody {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return { ok: false, error: { code: 'internal_error', message: `The command failed: ${message}` } };
}
