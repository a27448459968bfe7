// The confirmation before a deletion, or before another step that replaces data.
import { confirm, isCancel, text } from '@clack/prompts';
import { failure } from './failure.ts';
import type { OutputOptions } from './output.ts';
import { clean } from './table.ts';

/** Returns only after a yes. Calls `describe` only on a terminal. */
export function askToDelete(
  options: OutputOptions,
  name: string,
  describe: () => Promise<string>,
): Promise<void> {
  return askTo(options, name, 'deleted', async () => `Delete ${await describe()}?`);
}

/** The same for any step. `done`: "deleted", for messages. `question`: the whole question. */
export async function askTo(
  options: OutputOptions,
  name: string,
  done: string,
  question: () => Promise<string>,
): Promise<void> {
  requireTerminal(options, name, done);
  if ((await askYesNo(await question())) !== true) throw failure('not_confirmed', `Nothing was ${done}.`);
}

/** Whether somebody is there to answer. */
export function canAsk({ json }: OutputOptions): boolean {
  return !json && process.stdin.isTTY && process.stderr.isTTY;
}

/** null: Ctrl-C. */
export async function askYesNo(question: string): Promise<boolean | null> {
  const answer = await confirm({
    message: clean(question),
    initialValue: false,
    output: process.stderr,
    withGuide: false,
  });
  return isCancel(answer) ? null : answer;
}

/** For a step that cannot be undone: returns only after the name was typed. */
export async function askForName(
  options: OutputOptions,
  name: string,
  done: string,
  question: string,
): Promise<void> {
  requireTerminal(options, name, done);
  const typed = await text({
    message: clean(`${question} Type "${name}" to confirm.`),
    output: process.stderr,
    withGuide: false,
  });
  if (typed !== name) throw failure('not_confirmed', `Nothing was ${done}.`);
}

function requireTerminal(options: OutputOptions, name: string, done: string): void {
  if (canAsk(options)) return;
  const act = { deleted: 'delete', promoted: 'promote', 'given up': 'give it up' }[done] ?? done;
  throw failure(
    'not_confirmed',
    `"${name}" was not ${done}: a confirmation needs a terminal.`,
    `Add --yes to ${act} without confirmation.`,
  );
}
