// rowhouse projects: creates, lists, shows, changes, deletes and restores projects.
import { setTimeout as sleep } from 'node:timers/promises';
import type {
  ChangeProject,
  Compaction,
  CompactionResponse,
  ConnectionResponse,
  CreatedProjectResponse,
  CreateProject,
  LastCompactionResponse,
  Project,
  ProjectResponse,
  ProjectsResponse,
} from '@rowhouse/api';
import { type Command, Option } from 'commander';
import { type ApiOptions, callApi, withApiOptions, withListOptions } from '../api.ts';
import { askToDelete } from '../ask.ts';
import { positive } from '../numbers.ts';
import { note, progressOf, show, showList } from '../output.ts';
import { clean, formatFields, formatTable } from '../table.ts';
import { formatTime, parseMoment } from '../when.ts';
import { exportProject, formats } from './projects-export.ts';
import { importProject } from './projects-import.ts';
import { move } from './projects-move.ts';
import { type RestoreOptions, restore } from './projects-restore.ts';
import { usage } from './projects-usage.ts';

const lookMs = 500;

export function addProjects(program: Command): void {
  const projects = program
    .command('projects')
    .summary('create, list, change and delete projects')
    .description('Create, list, change and delete projects.');
  const add = (usage: string, about: string) => withApiOptions(projects.command(usage).description(about));

  add('create <name>', 'Create a project and print its key. Needs an account key.')
    .option('--limit-mb <number>', 'size limit in megabytes (default: 512)', positive)
    .option('--slug <slug>', 'name of the project in paths (default: derived from the name)')
    .option('--server <name>', 'server that it must be on (default: Rowhouse chooses one)')
    .option('--label <label...>', 'labels that its server must have')
    .action(create);
  withListOptions(projects.command('list').description('List projects, newest first.'))
    .option('--deleted', 'list deleted projects that can still be restored')
    .option('--search <text>', 'list projects whose name or slug contains this text')
    .option('--limit <number>', 'projects per page (default: 50)', positive)
    .option('--page <number>', 'page number (default: 1)', positive)
    .action(list);
  add('show <slug>', 'Show one project.').action(showOne);
  add('usage <slug>', 'Show the size of a project by table, and the space left until its limit.')
    .option('--tables <number>', 'how many of the largest tables to show (default: 20)', positive)
    .action(usage);
  add('rename <slug>', 'Rename a project. Its slug, keys and addresses stay. Needs an account key.')
    .argument('<name>', 'new name')
    .action(rename);
  add('limit <slug>', "Change a project's size limit. Needs an account key.")
    .argument('<mb>', 'megabytes', positive)
    .action(changeLimit);
  add(
    'delete <slug>',
    'Delete a project. It can be restored for some days (ROWHOUSE_KEEP_DELETED_DAYS). Needs an account key.',
  )
    .option('--yes', 'delete without confirmation')
    .action(remove);
  add('restore <slug>', 'Restore a deleted project, or the state of an earlier time. Needs an account key.')
    .option(
      '--to <time>',
      'restore the state of this time into a new project: 30m for half an hour ago, or 2026-11-16T10:00:00Z',
      (text) => parseMoment(text),
    )
    .option('--snapshot <name>', 'restore the state of this snapshot into a new project')
    .option(
      '--in-place',
      'with --to or --snapshot: replace the project; its current state is kept as a deleted project',
    )
    .option('--yes', 'with --in-place: replace without confirmation')
    .option(
      '--server <name>',
      'with --to or --snapshot: server of the new project (default: that of the project)',
    )
    .action((slug: string, options: RestoreOptions) => restore(slug, options, fieldsOf));
  add(
    'move <slug>',
    'Move a project to another server, and wait until that is done. Requests wait during the switch; direct connections are closed. Needs an account key.',
  )
    .argument('<server>', 'name of the server')
    .addOption(
      new Option('--mode <mode>', 'online: by replication; dump: by a dump, while requests wait')
        .choices(['auto', 'online', 'dump'])
        .default(undefined, 'auto: online where possible'),
    )
    .option(
      '--max-pause-ms <number>',
      'undo the move if requests would wait longer (default: 20000)',
      positive,
    )
    .action(move);
  add('compact <slug>', 'Return unused space of a project to the disk, and wait until that is done.').action(
    compact,
  );
  add(
    'export <slug>',
    'Write a project with its users to a file. It contains password hashes. Needs the project key or an account key.',
  )
    .addOption(
      new Option(
        '--format <format>',
        'custom: for pg_restore; sql: for psql; csv: a zip with a file for each table',
      )
        .choices(formats)
        .default('custom'),
    )
    .option('--output <file>', 'file to write, or - for stdout (default: <slug>.dump, .sql or .zip)')
    .action(exportProject);
  add(
    'import <source>',
    'Create a project from a dump of pg_dump (a file, or - for stdin), or from a server (postgres://…). Needs an account key.',
  )
    .requiredOption('--name <name>', 'name of the new project')
    .option('--limit-mb <number>', 'size limit in megabytes (default: 512)', positive)
    .option('--slug <slug>', 'name of the project in paths (default: derived from the name)')
    .option('--upload <id>', 'continue an upload of the same file that was interrupted')
    .option('--allow-losses', 'exit with 0 even if not everything could be taken over')
    .action(importProject);
  add(
    'connection <slug>',
    'Print the connection URL for psql and PostgreSQL drivers. It contains a password.',
  ).action(connection);
}

type CreateOptions = ApiOptions & { limitMb?: number; slug?: string; server?: string; label?: string[] };

async function create(name: string, options: CreateOptions): Promise<void> {
  const body: CreateProject = {
    name,
    ...(options.limitMb !== undefined && { limit_mb: options.limitMb }),
    ...(options.slug !== undefined && { slug: options.slug }),
    ...(options.server !== undefined && { server: options.server }),
    ...(options.label && { labels: options.label }),
  };
  const answer = await callApi<CreatedProjectResponse>(options, 'POST', ['projects'], { body });
  show(options, answer, ({ project, api_key: apiKey }) =>
    formatFields([...fieldsOf(project), ['key', `${apiKey}   This key is shown only once. Store it now.`]]),
  );
}

type ListOptions = ApiOptions & { deleted?: boolean; search?: string; limit?: number; page?: number };

async function list(options: ListOptions): Promise<void> {
  const { limit, page, deleted, search } = options;
  const query = { limit, page, search, status: deleted ? 'deleted' : undefined };
  const answer = await callApi<ProjectsResponse>(options, 'GET', ['projects'], { query });
  const none = deleted
    ? 'No deleted project can be restored.'
    : 'There are no projects yet. Create one: rowhouse projects create <name>';
  showList(options, answer, answer.projects, {
    table: () => tableOf(answer.projects, deleted === true),
    empty: answer.page > 1 ? 'This page is empty.' : search ? 'No project matches.' : none,
  });
  if (answer.has_more) note(options, `There are more projects: add --page ${answer.page + 1}`);
}

async function showOne(slug: string, options: ApiOptions): Promise<void> {
  const answer = await callApi<ProjectResponse>(options, 'GET', ['projects', slug]);
  show(options, answer, ({ project }) => formatFields(fieldsOf(project)));
}

function rename(slug: string, name: string, options: ApiOptions): Promise<void> {
  return change(slug, { name }, options);
}

function changeLimit(slug: string, mb: number, options: ApiOptions): Promise<void> {
  return change(slug, { limit_mb: mb }, options);
}

async function change(slug: string, body: ChangeProject, options: ApiOptions): Promise<void> {
  const answer = await callApi<ProjectResponse>(options, 'PATCH', ['projects', slug], { body });
  show(options, answer, ({ project }) => formatFields(fieldsOf(project)));
  const { size_mb: size, limit_mb: limit, status } = answer.project;
  if (status === 'full')
    note(
      options,
      `The project takes ${size} of ${limit} MB: statements that add data are refused. To see what takes the space: rowhouse projects usage ${slug}`,
    );
}

async function remove(slug: string, options: ApiOptions & { yes?: boolean }): Promise<void> {
  if (!options.yes) {
    await askToDelete(options, slug, async () => {
      const { project } = await callApi<ProjectResponse>(options, 'GET', ['projects', slug]);
      return `project ${project.slug} (${project.name}, ${project.size_mb} MB)`;
    });
  }
  const answer = await callApi<ProjectResponse>(options, 'DELETE', ['projects', slug]);
  show(options, answer, ({ project: { slug: deleted, dropped_after: end } }) => {
    const restorable = end !== undefined && Date.parse(end) > Date.now();
    const lines = [`Project ${deleted} is deleted.`];
    if (restorable)
      lines.push(`To restore it until ${formatTime(end)}: rowhouse projects restore ${deleted}`);
    return lines.map(clean).join('\n');
  });
}

/** Starts the compaction once and then only polls it: stopping the command does not stop the compaction. */
async function compact(slug: string, options: ApiOptions): Promise<void> {
  const path = ['projects', slug, 'compact'];
  let answer: LastCompactionResponse = await callApi<CompactionResponse>(options, 'POST', path);
  const tell = progressOf(options);
  while (answer.compaction?.status === 'running') {
    tell(describeProgress(answer.compaction));
    await sleep(lookMs);
    answer = await callApi<LastCompactionResponse>(options, 'GET', path);
  }
  tell(null);
  show(options, answer, ({ compaction }) => describeCompaction(compaction));
  if (answer.compaction?.status !== 'done') process.exitCode = 1;
}

function describeProgress({ tables_done: done, tables_total: total, current }: Compaction): string {
  return `${done} of ${total} tables${current === null ? '' : `, now ${current}`}`;
}

function describeCompaction(compaction: Compaction | null): string {
  if (!compaction) return 'There was no compaction.';
  const { status, error, skipped, skipped_count: count } = compaction;
  const more = count - skipped.length;
  return [
    formatFields([
      ['status', error === null ? status : `${status}: ${error}`],
      ['tables', `${compaction.tables_done} of ${compaction.tables_total}`],
      ['size', `${compaction.size_mb} MB, ${compaction.size_before_mb} before`],
      ['freed', `${compaction.freed_mb} MB`],
    ]),
    ...skipped.map(({ table, reason }) => clean(`skipped  ${table}: ${reason}`)),
    ...(more > 0 ? [`skipped  ${more} more`] : []),
  ].join('\n');
}

async function connection(slug: string, options: ApiOptions): Promise<void> {
  const answer = await callApi<ConnectionResponse>(options, 'GET', ['projects', slug, 'connection']);
  show(options, answer, (given) => clean(given.connection.url));
}

export function fieldsOf(project: Project): [string, string | number][] {
  return [
    ['slug', project.slug],
    ['name', project.name],
    ['status', project.status],
    ['size', `${project.size_mb} of ${project.limit_mb} MB`],
    ...(project.parent ? [['parent', project.parent] as [string, string]] : []),
    ['created', formatTime(project.created_at)],
    ...(project.expires_at ? [['expires', formatTime(project.expires_at)] as [string, string]] : []),
    ...(project.deleted_at ? [['deleted', formatTime(project.deleted_at)] as [string, string]] : []),
    ...(project.dropped_after
      ? [['restorable', `until ${formatTime(project.dropped_after)}`] as [string, string]]
      : []),
    ['id', project.id],
  ];
}

function tableOf(projects: readonly Project[], deleted: boolean): string {
  const withParents = projects.some(({ parent }) => parent);
  return formatTable(
    [
      { title: 'SLUG' },
      { title: 'NAME', max: 40 },
      ...(withParents ? [{ title: 'PARENT' }] : []),
      { title: 'SIZE MB', align: 'right' },
      { title: 'LIMIT MB', align: 'right' },
      { title: 'STATUS' },
      { title: deleted ? 'RESTORABLE UNTIL' : 'CREATED' },
    ],
    projects.map((project) => [
      project.slug,
      project.name,
      ...(withParents ? [project.parent ?? '-'] : []),
      project.size_mb.toFixed(2),
      project.limit_mb,
      project.status,
      formatTime(deleted ? project.dropped_after : project.created_at),
    ]),
  );
}
