// The question before something is deleted.
import { confirm } from '@clack/prompts';
import { failure } from './failure.ts';
import type { OutputOptions } from './output.ts';
import { clean } from './table.ts';

/** Returns only after a yes. `describe` is asked for only where a person reads. */
export async function askToDelete(
  { json }: OutputOptions,
  name: string,
  describe: () => Promise<string>,
): Promise<void> {
  if (json || !process.stdin.isTTY || !process.stderr.isTTY) {
    throw failure(
      'not_confirmed',
      `Nothing was deleted: there is nobody to ask about "${name}".`,
      'Add --yes.',
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
