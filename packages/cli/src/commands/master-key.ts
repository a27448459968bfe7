// rowhouse master-key: a copy of the installation's master key for safekeeping, the way back, and a new key.
import { spawn } from 'node:child_process';
import { createReadStream, rmSync, writeFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { isCancel, password } from '@clack/prompts';
import type { Command } from 'commander';
import { askTo } from '../ask.ts';
import { Failure, type FailureBody, failure } from '../failure.ts';
import { note, type OutputOptions, show, waiting } from '../output.ts';
import { findProgram } from '../server.ts';
import { environmentOf, withSettings } from '../settings.ts';
import { clean, counted } from '../table.ts';

type Options = OutputOptions & { output?: string } & Record<string, unknown>;
type Exported = { ok: true; master_key: string; source: string; compared: boolean };
type Rotated = Imported & { projects?: number; servers?: number; resumed?: true } & {
  backups_moved_to: string | null;
  backups_in_bucket: boolean;
};
type Imported = { ok: true; file: string; changed: boolean; kept_as: string | null; overridden: boolean };

/** A longer text is not a key; the service refuses it. */
const maxInputBytes = 8192;

export function addMasterKey(program: Command): void {
  const command = program
    .command('master-key')
    .summary('export the master key for safekeeping, restore it, or replace it')
    .description(
      "Export the installation's master key for safekeeping, restore it, or replace it. Without this key, the service cannot start " +
        'on its data, and the project keys cannot be read. The commands read settings from the environment too.',
    );
  const add = (usage: string, about: string) =>
    withSettings(command.command(usage).description(about), ['ROWHOUSE_DATA']).option(
      '--json',
      'print the result as JSON',
    );
  add('export', 'Print the master key, or write it to a new file that only you can read.')
    .option('--output <file>', 'write to this file instead of stdout; an existing file is never overwritten')
    .action(exportKey);
  add(
    'import [file]',
    'Put a master key back into a data folder that has lost it. The key must belong to the data. It is read from the ' +
      'file, or from stdin.',
  )
    .alias('restore')
    .action(importKey);
  add(
    'rotate',
    'Replace the master key by a new one. Stop all processes of the service first. Project keys and access tokens stay ' +
      'valid; connection strings of projects change, and users sign in again when their access token has expired. ' +
      'An interrupted rotation is completed by running the command again.',
  )
    .option('--yes', 'do not ask for confirmation')
    .action(rotateKey);
}

async function exportKey(options: Options): Promise<void> {
  const answer = await run<Exported>('export', options);
  if (!answer.compared) note(options, 'The key could not be compared with the data.');
  const { output } = options;
  if (output !== undefined) {
    writeKey(output, `${answer.master_key}\n`);
    const { master_key: _secret, ...rest } = answer;
    const told = `The master key is in ${clean(output)}. Keep it apart from the data.`;
    show(options, { ...rest, file: output }, () => told);
    return;
  }
  if (process.stdout.isTTY) {
    process.stderr.write(
      'Warning: this key opens all project keys. Store it apart from the data, and clear this terminal.\n',
    );
  }
  show(options, answer, () => answer.master_key);
}

async function importKey(file: string | undefined, options: Options): Promise<void> {
  const key = await readKey(file, options);
  const answer = await waiting(
    options,
    'Comparing the key with the data',
    run<Imported>('import', options, key),
  );
  if (answer.kept_as) note(options, `The file that was there is now ${clean(answer.kept_as)}.`);
  if (answer.overridden) {
    note(options, 'ROWHOUSE_MASTER_KEY is set to another key. Unset it, because the service uses it first.');
  }
  show(options, answer, () => {
    const where = clean(answer.file);
    return answer.changed
      ? `The key belongs to the data and is restored: ${where}`
      : `The key belongs to the data and was in place already: ${where}`;
  });
}

async function rotateKey(options: Options & { yes?: boolean }): Promise<void> {
  if (!options.yes) {
    const question = 'Replace the master key? Connection strings of all projects change.';
    await askTo(options, 'master key', 'rotate', async () => question);
  }
  const answer = await waiting(options, 'Replacing the master key', run<Rotated>('rotate', options));
  if (answer.overridden) {
    note(options, `Set ROWHOUSE_MASTER_KEY to the new key, or unset it: the service uses it first.`);
  }
  show(options, answer, () => {
    const what = answer.resumed
      ? 'The interrupted rotation is complete.'
      : `The master key is replaced, for ${counted(answer.projects ?? 0, 'project')} on ${counted(answer.servers ?? 0, 'server')}.`;
    return [
      what,
      `The new key is in ${clean(answer.file)}. Keep a copy apart from the data.`,
      ...(answer.kept_as ? [`The old key is in ${clean(answer.kept_as)}. Backups from before need it.`] : []),
      ...(answer.backups_moved_to ? [`These backups are in ${clean(answer.backups_moved_to)} now.`] : []),
      ...(answer.backups_in_bucket
        ? ['Set ROWHOUSE_BACKUP_URL to another prefix: the service cannot read the backups of the old key.']
        : []),
      'Start the service, and take a backup: rowhouse backup now',
    ].join('\n');
  });
}

/** Through pipes: arguments and the environment of a process can be seen by others. */
async function run<T>(action: 'export' | 'import' | 'rotate', options: Options, input = ''): Promise<T> {
  const child = spawn(process.execPath, [findProgram('master-key'), action], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: environmentOf(options),
  });
  const started = new Promise<never>((_, reject) => child.once('error', reject));
  // It may end without having read everything.
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  let answer: T | FailureBody;
  try {
    answer = JSON.parse(await Promise.race([text(child.stdout), started])) as T | FailureBody;
  } catch (error) {
    throw failure('master_key_failed', `The command could not run: ${(error as Error).message}`);
  }
  if ((answer as FailureBody).ok === false) throw new Failure(answer as FailureBody);
  return answer as T;
}

async function readKey(file: string | undefined, { json }: Options): Promise<string> {
  if (file !== undefined) {
    const stream = createReadStream(file, { end: maxInputBytes });
    return text(stream).catch((error: NodeJS.ErrnoException) => {
      throw failure('file_not_readable', `${clean(file)} cannot be read (${error.code ?? error.message}).`);
    });
  }
  if (!process.stdin.isTTY || json) return readStdin();
  const typed = await password({ message: 'Master key (64 hex digits)', output: process.stderr });
  if (isCancel(typed)) throw failure('not_confirmed', 'Nothing was changed.');
  return typed;
}

async function readStdin(): Promise<string> {
  let typed = '';
  for await (const piece of process.stdin.setEncoding('utf8')) {
    typed += piece;
    if (typed.length > maxInputBytes) break;
  }
  return typed;
}

function writeKey(file: string, content: string): void {
  try {
    writeFileSync(file, content, { mode: 0o600, flag: 'wx', flush: true });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') {
      throw failure(
        'file_exists',
        `${clean(file)} exists and is left as it is.`,
        'Choose another file name.',
      );
    }
    // Half a key is worse than none.
    if (code === 'ENOSPC' || code === 'EDQUOT' || code === 'EIO') rmSync(file, { force: true });
    throw failure('file_not_written', `${clean(file)} cannot be written (${code ?? error}).`);
  }
}
