// The `rowhouse` command: runs a subcommand, and turns a failure into a message and an exit status.
import { type Command, CommanderError } from 'commander';
import { listFormats } from './api.ts';
import { createProgram } from './commands/commands.ts';
import { exitStatusOf } from './exit-status.ts';
import { showFailure } from './output.ts';
import { chooseService } from './profiles.ts';

const program = createProgram();
// Until a command is known.
let json = process.argv.includes('--json');
program.hook('preAction', (_program, command) => {
  if (command.options.some(({ argChoices }) => argChoices?.join() === listFormats.join()))
    readFormat(command);
  json = command.opts().json === true;
  chooseService(command);
});

// The reader may close the pipe early: `rowhouse projects list | head -1`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));

try {
  await program.parseAsync();
} catch (error) {
  // Commander has said it already.
  if (!(error instanceof CommanderError)) showFailure({ json }, error);
  process.exitCode = exitStatusOf(error);
}

function readFormat(command: Command): void {
  const format = command.opts().output as string;
  if (format === 'json') command.setOptionValue('json', true);
  if (format === 'csv' || format === 'jsonl') command.setOptionValue('rowsAs', format);
}
