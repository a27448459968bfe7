// The confirmation before a deletion.
import { confirm } from '@clack/prompts';
import { failure } from './failure.ts';
import type { OutputOptions } from './output.ts';
import { clean } from './table.ts';

/** Returns only after a yes. Calls `describe` only on a terminal. */
export async function askToDelete(
  { json }: OutputOptions,
  name: string,
  describe: () => Promise<string>,
): Promise<void> {
  if (json || !process.stdin.isTTY || !process.stderr.isTTY) {
    throw failure(
      'not_confirmed',
      `"${name}" was not deleted: a confirmation needs a terminal.`,
      'Add --yes to delete without confirmation.',
    );
  }
  const sure = await confirm({
    message: clean(`Delete ${await describe()}?`),
    initialValue: false,
    output: process.stderr,
    withGuide: false,
  });
  if (sure !== true) throw failure('not_confirmed', 'Nothing was deleted.');
}
