// rowhouse restore: the whole installation from its backups, into an empty data folder.
import type { Command } from 'commander';
import { type OutputOptions, show } from './output.ts';
import { runProgram } from './program.ts';
import { describeSince, type Since } from './restore-since.ts';
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
  const answer = await runProgram<Restored>('restore', [options.to ?? ''], env, options, 'Restoring');
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
