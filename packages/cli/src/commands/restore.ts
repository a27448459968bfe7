// rowhouse restore: the whole installation from its backups, into an empty data folder.
import type { Command } from 'commander';
import { type OutputOptions, show } from '../output.ts';
import { describeSince, type Since } from '../restore-since.ts';
import { runProgram } from '../service-program.ts';
import { environmentOf, withSettings } from '../settings.ts';
import { clean, formatFields, formatTable } from '../table.ts';
import { formatTime, parseMoment } from '../when.ts';

type Options = OutputOptions & { from?: string; to?: string; cluster?: string } & Record<string, unknown>;
type Detached = { name: string; hosts: string[]; projects: number; unfinished: string[] };
type Restored = {
  ok: true;
  data: string;
  from: string;
  backup: string;
  projects: number;
  last_change_at: string | null;
  detached: Detached[];
  /** Set if the first server was not embedded, and now is. */
  embedded: { server: string; reindex: string[] } | null;
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
    .option(
      '--to <time>',
      'restore the state of this time (default: everything): 30m for half an hour ago, or 2026-11-16T10:00:00Z',
      (text) => parseMoment(text),
    )
    .option('--cluster <id>', 'which one, if the storage has backups of several installations')
    .option('--json', 'print the result as JSON')
    .action(restoreAll);
}

async function restoreAll(options: Options): Promise<void> {
  const env = environmentOf(options);
  if (options.from !== undefined) env.ROWHOUSE_BACKUP_URL = options.from;
  const answer = await runProgram<Restored>(
    'restore',
    [options.to ?? '', options.cluster ?? ''],
    env,
    options,
    'Restoring',
  );
  show(options, answer, ({ data, from, backup, projects, last_change_at: last, detached, embedded, since }) =>
    [
      formatFields([
        ['data folder', data],
        ['from', from],
        ['backup', backup],
        ['projects', projects],
        ['last change', last === null ? '-' : formatTime(last)],
      ]),
      clean(`Start the service: rowhouse start --data ${data}`),
      ...(embedded ? describeEmbedded(embedded) : []),
      ...(detached.length > 0 ? describeDetached(detached) : []),
      ...(since ? describeSince(since) : []),
    ].join('\n\n'),
  );
}

function describeEmbedded({ server, reindex }: NonNullable<Restored['embedded']>): string[] {
  return [
    clean(
      `The server ${server} was a PostgreSQL server of your own. Its restored copy runs in the data folder: start the service without ROWHOUSE_DATABASE_URL.`,
    ),
    ...(reindex.length > 0
      ? [
          clean(
            `Other libraries sorted the texts in these projects. Run "reindex database" in each before you rely on its indexes: ${reindex.join(', ')}`,
          ),
        ]
      : []),
  ];
}

/** Paragraphs. */
function describeDetached(detached: readonly Detached[]): string[] {
  const columns = [{ title: 'SERVER' }, { title: 'HOSTS' }, { title: 'PROJECTS' }, { title: 'COMMAND' }];
  const rows = detached.map(({ name, hosts, projects }) => [
    ...[name, hosts.join(', '), projects, `rowhouse servers attach ${name}`],
  ]);
  const unfinished = detached.flatMap((one) => one.unfinished);
  return [
    `These servers are DETACHED: they were not restored, and the service leaves them and their projects alone. Attach each one when the old service is stopped for good. Never attach one in a copy that you only try out:\n${formatTable(columns, rows)}`,
    ...(unfinished.length > 0
      ? [
          clean(
            `These projects on detached servers were being filled at the restored time. Check them: ${unfinished.join(', ')}`,
          ),
        ]
      : []),
  ];
}
