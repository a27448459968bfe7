// rowhouse restore: the whole installation from its backups, into an empty data folder.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Command } from 'commander';
import { Failure, type FailureBody, failure } from './failure.ts';
import { type OutputOptions, progressOf, show } from './output.ts';
import { describeSince, type Since } from './restore-since.ts';
import { findProgram } from './server.ts';
import { environmentOf, withSettings } from './settings.ts';
import { clean, formatFields } from './table.ts';
import { formatTime } from './when.ts';

type Options = OutputOptions & { from?: string; to?: string } & Record<string, unknown>;
type Restored = {
  ok: true;
  data: string;
  from: string;
  backup: string;
  projects: number;
  last_change_at: string | null;
  since: Since | null;
};

export function addRestore(program: Command): void {
  const command = program
    .command('restore')
    .summary('restore the whole installation from its backups')
    .description(
      'Restore the whole installation from its backups into an empty data folder, while no service runs there. Needs the ' +
        'master key: in ROWHOUSE_MASTER_KEY, or in the data folder. For one project: rowhouse projects restore.',
    );
  withSettings(command, ['ROWHOUSE_DATA'])
    .option(
      '--from <url>',
      'where the backups are: file:/path or s3://bucket/prefix (env: ROWHOUSE_BACKUP_URL)',
    )
    .option('--to <time>', 'restore the state of this time (default: everything): 2026-11-16T10:00:00Z')
    .option('--json', 'print the result as JSON')
    .action(restoreAll);
}

async function restoreAll(options: Options): Promise<void> {
  const env = environmentOf(options);
  if (options.from !== undefined) env.ROWHOUSE_BACKUP_URL = options.from;
  const answer = await run(env, options);
  show(options, answer, ({ data, from, backup, projects, last_change_at: last, since }) =>
    [
      formatFields([
        ['data folder', data],
        ['from', from],
        ['backup', backup],
        ['projects', projects],
        ['last change', last === null ? '-' : formatTime(last)],
      ]),
      clean(`Start the service: rowhouse start --data ${data}`),
      ...(since ? describeSince(since) : []),
    ].join('\n\n'),
  );
}

async function run(env: NodeJS.ProcessEnv, options: Options): Promise<Restored> {
  const child = spawn(process.execPath, [findProgram('restore'), options.to ?? ''], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env,
  });
  const started = new Promise<never>((_, reject) => child.once('error', reject));
  const tell = progressOf(options);
  const read = async (): Promise<Restored | FailureBody | null> => {
    for await (const line of createInterface({ input: child.stdout })) {
      const said = JSON.parse(line) as { progress?: number } | Restored | FailureBody;
      if ('ok' in said) return said;
      tell(`Restoring … ${said.progress} %`);
    }
    return null;
  };
  const answer = await Promise.race([read(), started]).finally(() => tell(null));
  if (!answer) throw failure('restore_failed', 'The command ended without an answer.');
  if (!answer.ok) throw new Failure(answer);
  return answer;
}
