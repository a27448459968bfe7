// The confirmation before a deletion, or before another step that replaces data.
import { confirm, text } from '@clack/prompts';
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
  const sure = await confirm({
    message: clean(await question()),
    initialValue: false,
    output: process.stderr,
    withGuide: false,
  });
  if (sure !== true) throw failure('not_confirmed', `Nothing was ${done}.`);
}

/** For what nothing brings back: returns only after the name was typed. */
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

function requireTerminal({ json }: OutputOptions, name: string, done: string): void {
  if (!json && process.stdin.isTTY && process.stderr.isTTY) return;
  const act = { deleted: 'delete', promoted: 'promote', 'given up': 'give it up' }[done] ?? done;
  throw failure(
    'not_confirmed',
    `"${name}" was not ${done}: a confirmation needs a terminal.`,
    `Add --yes to ${act} without confirmation.`,
  );
}
