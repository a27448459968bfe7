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
  return askTo(options, name, 'delete', async () => `Delete ${await describe()}?`);
}

/** What is done to something, and what was done then. */
const steps = {
  delete: 'deleted',
  reset: 'reset',
  promote: 'promoted',
  replace: 'replaced',
  rotate: 'rotated',
  'give up': 'given up',
} as const;
export type Step = keyof typeof steps;

/** The same for any step. `question`: the whole question. */
export async function askTo(
  options: OutputOptions,
  name: string,
  step: Step,
  question: () => Promise<string>,
): Promise<void> {
  requireTerminal(options, name, step);
  if ((await askYesNo(await question())) !== true)
    throw failure('not_confirmed', `Nothing was ${steps[step]}.`);
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
  step: Step,
  question: string,
): Promise<void> {
  requireTerminal(options, name, step);
  const typed = await text({
    message: clean(`${question} Type "${name}" to confirm.`),
    output: process.stderr,
    withGuide: false,
  });
  if (typed !== name) throw failure('not_confirmed', `Nothing was ${steps[step]}.`);
}

function requireTerminal(options: OutputOptions, name: string, step: Step): void {
  if (canAsk(options)) return;
  throw failure(
    'not_confirmed',
    `"${name}" was not ${steps[step]}: a confirmation needs a terminal.`,
    `Add --yes to ${step} it without confirmation.`,
  );
}
