// rowhouse backup: takes, lists, verifies and prunes backups, and proves that they can be restored, through a running
// service.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Backup, BackupsResponse, Job, JobResponse, ServerBackups } from '@rowhouse/api';
import type { Command } from 'commander';
import { type ApiOptions, callApi, withApiOptions, withListOptions } from '../api.ts';
import { failure } from '../failure.ts';
import { progressOf, show, showList } from '../output.ts';
import { clean, counted, formatFields, formatTable } from '../table.ts';
import { formatTime } from '../when.ts';

const lookMs = 500;

export function addBackup(program: Command): void {
  const backup = program
    .command('backup')
    .summary('take, list, verify and prune backups, and try a restore')
    .description('Take, list, verify and prune backups, and try a restore. Needs an account key.');
  const add = (usage: string, about: string) => withApiOptions(backup.command(usage).description(about));
  const ofServer = ['--server <name>', 'only those of this server (default: all servers)'] as const;

  add('now', 'Take a backup and wait until it is done.')
    .option('--full', 'take a full backup instead of an incremental one')
    .option('--server <name>', 'only of this server (default: one of each server)')
    .option(
      '--new-repository',
      'the repository at this place is lost for good: begin a new one there. An intact repository stays as it is',
    )
    .action(now);
  withListOptions(backup.command('list').description('List backups, and the times that can be restored.'))
    .option(...ofServer)
    .action(list);
  add('verify', 'Read all backups back and check them.')
    .option(...ofServer)
    .action(verify);
  add(
    'drill [project]',
    'Restore a project into a temporary copy, as of now, and compare it with the live one. Without a project, they take turns.',
  ).action(drill);
  add('prune', 'Delete backups that are older than ROWHOUSE_BACKUP_DAYS and that no other backup needs.')
    .option(...ofServer)
    .action(prune);
}

type Options = ApiOptions & { server?: string };

function serverOf({ server }: Options): { server?: string } {
  return server === undefined ? {} : { server };
}

async function now(options: Options & { full?: boolean; newRepository?: boolean }): Promise<void> {
  const body = {
    kind: options.full ? 'full' : 'incremental',
    ...(options.newRepository && { new_repository: true }),
    ...serverOf(options),
  };
  const answer = await run<{ backups: Backup[] }>(options, ['backups'], 'Backing up', body);
  show(options, answer, ({ job: { result } }) => {
    const isOne = result.backups.length === 1;
    const lines = result.backups.map(({ id, server, size_mb: size, stored_mb: stored }) => {
      const of = isOne ? '' : ` of ${server}`;
      return clean(`Backup ${id}${of} is complete: ${size} MB, stored as ${stored} MB.`);
    });
    return lines.join('\n');
  });
}

async function list(options: Options): Promise<void> {
  const answer = await callApi<BackupsResponse>(options, 'GET', ['backups'], { query: serverOf(options) });
  if (options.rowsAs)
    return showList(options, answer, answer.backups, { table: () => '', empty: 'No backups.' });
  show(options, answer, (given) => {
    const isOne = given.servers.length === 1;
    const summaries = isOne
      ? [summaryOf(given, given.storage)]
      : [formatFields([['storage', given.storage]]), ...given.servers.map((one) => summaryOf(one))];
    return [tableOf(given.backups, isOne), ...summaries, ...warningsOf(given)].join('\n\n');
  });
}

async function verify(options: Options): Promise<void> {
  type Result = { backups: number; segments: number };
  const answer = await run<Result>(options, ['backups', 'verify'], 'Reading backups', serverOf(options));
  show(options, answer, ({ job: { result } }) => {
    return `${result.backups} backups and ${result.segments} WAL segments are complete and undamaged.`;
  });
}

async function drill(project: string | undefined, options: ApiOptions): Promise<void> {
  type Result = { project: string; compared_tables: number; changed_tables: number; seconds: number };
  const body = project === undefined ? {} : { project };
  const answer = await run<Result>(options, ['backups', 'drill'], 'Restoring aside', body);
  show(options, answer, ({ job: { result } }) => {
    const { compared_tables: compared, changed_tables: changed, seconds } = result;
    const others = changed === 0 ? '' : ` ${countOf(changed)} changed meanwhile and could not be compared.`;
    return clean(
      `${result.project} was restored aside in ${seconds} s. ${countOf(compared)} ${compared === 1 ? 'equals' : 'equal'} the live data.${others}`,
    );
  });
}

function countOf(tables: number): string {
  return counted(tables, 'table');
}

async function prune(options: Options): Promise<void> {
  type Result = { backups: string[]; segments: number };
  const answer = await run<Result>(options, ['backups', 'prune'], 'Deleting', serverOf(options));
  show(options, answer, ({ job: { result } }) => {
    return `${result.backups.length} backups and ${result.segments} WAL objects were deleted.`;
  });
}

/** Starts a job and waits for its end. */
async function run<Result>(options: ApiOptions, path: string[], what: string, body: object) {
  let { job } = await callApi<JobResponse>(options, 'POST', path, { body });
  const tell = progressOf(options);
  try {
    while (job.status === 'running') {
      tell(`${what} … ${Math.floor(job.progress * 100)} %`);
      await sleep(lookMs);
      ({ job } = await callApi<JobResponse>(options, 'GET', ['jobs', job.id]));
    }
  } finally {
    tell(null);
  }
  if (job.status !== 'done') throw failureOf(job);
  return { ok: true as const, job: { ...job, result: job.result as Result } };
}

function failureOf({ error }: Job) {
  const { problems = [] } = (error?.details ?? {}) as { problems?: string[] };
  const message = [error?.message ?? 'The job failed.', ...problems].join('\n  ');
  return failure(error?.code ?? 'internal_error', message, error?.hint);
}

function tableOf(backups: readonly Backup[], isOneServer: boolean): string {
  if (backups.length === 0) return 'No backups yet.';
  const columns = [
    ...(isOneServer ? [] : [{ title: 'SERVER' }]),
    { title: 'ID' },
    { title: 'ENDED' },
    { title: 'MB', align: 'right' as const },
    { title: 'STORED MB', align: 'right' as const },
    { title: 'NEEDS' },
  ];
  return formatTable(
    columns,
    backups.map((one) => [
      ...(isOneServer ? [] : [one.server]),
      ...[one.id, formatTime(one.ended_at), one.size_mb, one.stored_mb, one.parent ?? '-'],
    ]),
  );
}

/** As --to takes it. Rounded into the range, so that both ends can be restored. */
function exactTime(iso: string, round: (seconds: number) => number): string {
  return new Date(round(Date.parse(iso) / 1000) * 1000).toISOString().replace('.000', '');
}

type Summary = Pick<ServerBackups, 'restorable' | 'lag_seconds' | 'last_verified_at'> &
  Partial<Pick<ServerBackups, 'name'>>;

/** The summary of the only server, or of one of several. */
function summaryOf(answer: Summary, storage?: string): string {
  const ranges = answer.restorable.flatMap(({ from, to }): [string, string][] => [
    ['restorable from', exactTime(from, Math.ceil)],
    ['restorable to', exactTime(to, Math.floor)],
  ]);
  return formatFields([
    ...(storage === undefined ? [] : [['storage', storage] as [string, string]]),
    ...(answer.name === undefined ? [] : [['server', answer.name] as [string, string]]),
    ...(ranges.length > 0 ? ranges : [['restorable', 'nothing yet'] as [string, string]]),
    ['not stored yet', answer.lag_seconds === null ? '-' : `${answer.lag_seconds} s`],
    ['verified', formatTime(answer.last_verified_at)],
  ]);
}

/** Each is a paragraph. */
function warningsOf({ damaged, servers, is_on_data_disk: isOnDataDisk }: BackupsResponse): string[] {
  const lines = damaged.map(({ id, problem }) => clean(`  ${id}: ${problem}`));
  const missing = servers.flatMap(({ name, problem, hint }) =>
    problem === null
      ? []
      : [
          `${clean(`WARNING: ${name} is not backed up now. ${problem}`)}\n${clean(`To fix it: ${hint ?? ''}`)}`,
        ],
  );
  return [
    ...missing,
    ...(damaged.length > 0
      ? [
          [
            'WARNING: These backups are damaged. They and the backups that need them cannot be restored.',
            ...lines,
            'To fix it: rowhouse backup now --full. Then look for the cause in the storage.',
          ].join('\n'),
        ]
      : []),
    ...(isOnDataDisk
      ? [
          'WARNING: The backups are on the disk of the data. If it is lost, so are the backups.\n' +
            'To fix it: set ROWHOUSE_BACKUP_URL to a folder on another disk, or to a bucket.',
        ]
      : []),
  ];
}
