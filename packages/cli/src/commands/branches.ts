// rowhouse branches: creates, lists, resets and promotes branches.
import { setTimeout as sleep } from 'node:timers/promises';
import type {
  BranchesResponse,
  CreateBranch,
  CreatedBranchResponse,
  Job,
  JobResponse,
  Project,
  ProjectResponse,
  PromotedResponse,
} from '@rowhouse/api';
import type { Command } from 'commander';
import { type ApiOptions, callApi, withApiOptions, withListOptions } from '../api.ts';
import { askTo, type Step } from '../ask.ts';
import { failure } from '../failure.ts';
import { positive } from '../numbers.ts';
import { progressOf, show, showList } from '../output.ts';
import { isDone, skippedLines } from '../skipped.ts';
import { startedFields } from '../started.ts';
import { clean, formatFields, formatTable } from '../table.ts';
import { formatTime, parseMoment, parseWhen } from '../when.ts';
import { fieldsOf } from './projects.ts';

const lookMs = 300;

export function addBranches(program: Command): void {
  const branches = program
    .command('branches')
    .summary('create, list, reset and promote branches')
    .description(
      'Branches: copies of a project that are projects themselves. All commands need an account key.',
    );
  const add = (usage: string, about: string) => withApiOptions(branches.command(usage).description(about));

  add(
    'create <project>',
    'Create a branch of a project and print its key. Requests to the project wait while it is copied.',
  )
    .argument('<name>', 'name of the branch')
    .option('--limit-mb <number>', "size limit in megabytes (default: the project's)", positive)
    .option('--live', 'do not pause the project: export it and import the copy, which takes longer')
    .option(
      '--at <time>',
      'begin with the state of this earlier time, from the backups: 30m for half an hour ago, or 2026-11-16T10:00:00Z',
      (text) => parseMoment(text),
    )
    .option('--slug <slug>', 'name of the branch in paths (default: derived from the name)')
    .option('--expires <when>', 'delete it after this time: 7d, 12h or a date (default: never)', (text) =>
      parseWhen(text),
    )
    .action(create);
  withListOptions(
    branches.command('list <project>').description('List the branches of a project, newest first.'),
  ).action(list);
  add('reset <branch>', "Replace the branch's data with the current data of its parent.")
    .option('--yes', 'reset without confirmation')
    .action(reset);
  add(
    'promote <branch>',
    "Replace the parent's data with the branch's. The parent's slug, keys and connection string stay. The branch is deleted and can be restored, with the parent's old data, for some days.",
  )
    .option('--yes', 'promote without confirmation')
    .action(promote);
}

type CreateOptions = ApiOptions & {
  limitMb?: number;
  slug?: string;
  expires?: string;
  live?: boolean;
  at?: string;
};

async function create(project: string, name: string, options: CreateOptions): Promise<void> {
  const body: CreateBranch = {
    name,
    ...(options.limitMb !== undefined && { limit_mb: options.limitMb }),
    ...(options.slug !== undefined && { slug: options.slug }),
    ...(options.expires !== undefined && { expires_at: options.expires }),
    ...(options.live && { mode: 'live' }),
    ...(options.at !== undefined && { at: options.at }),
  };
  const path = ['projects', project, 'branches'];
  const created = await callApi<CreatedBranchResponse>(options, 'POST', path, { body });
  const { job, api_key: key } = created;
  if (!job) {
    show(options, created, ({ project: branch }) =>
      formatFields([...fieldsOf(branch), ['key', `${key}   This key is shown only once. Store it now.`]]),
    );
    return;
  }
  // At once: the key is shown only once, and the wait can be interrupted.
  if (!options.json) show(options, created, ({ project: branch }) => startedFields(branch.slug, key, job.id));
  const filled = await whenFilled(options, created, job);
  show(options, filled, ({ project: branch, job: ended }) =>
    [formatFields(fieldsOf(branch)), ...(ended ? skippedLines(ended) : [])].join('\n'),
  );
  if (filled.job?.status === 'done_with_losses') process.exitCode = 1;
}

/** Stopping the command does not stop the job. */
async function whenFilled(
  options: ApiOptions,
  created: CreatedBranchResponse,
  started: Job,
): Promise<CreatedBranchResponse> {
  const tell = progressOf(options);
  let job = started;
  while (job.status === 'running') {
    tell(`${Math.round(job.progress * 100)} %`);
    await sleep(lookMs);
    ({ job } = await callApi<JobResponse>(options, 'GET', ['jobs', job.id]));
  }
  tell(null);
  if (!isDone(job))
    throw failure(
      'branch_failed',
      `The branch was not created: ${job.error?.message ?? job.status}`,
      job.error?.hint,
    );
  const path = ['projects', created.project.slug];
  const { project } = await callApi<ProjectResponse>(options, 'GET', path);
  return { ...created, project, job };
}

async function list(project: string, options: ApiOptions): Promise<void> {
  const answer = await callApi<BranchesResponse>(options, 'GET', ['projects', project, 'branches']);
  showList(options, answer, answer.branches, {
    table: () => tableOf(answer.branches),
    empty: `There are no branches yet. Create one: rowhouse branches create ${project} <name>`,
  });
}

async function reset(branch: string, options: ApiOptions & { yes?: boolean }): Promise<void> {
  await confirm(
    branch,
    options,
    'reset',
    (project) => `Replace the data of ${project.slug} by that of ${project.parent}`,
  );
  const answer = await callApi<ProjectResponse>(options, 'POST', ['projects', branch, 'reset']);
  show(options, answer, ({ project }) => formatFields(fieldsOf(project)));
}

async function promote(branch: string, options: ApiOptions & { yes?: boolean }): Promise<void> {
  await confirm(
    branch,
    options,
    'promote',
    (project) => `Replace the data of ${project.parent} by that of ${project.slug}`,
  );
  const answer = await callApi<PromotedResponse>(options, 'POST', ['projects', branch, 'promote']);
  show(options, answer, ({ project, replaced }) => {
    const until = formatTime(replaced.dropped_after);
    return [
      `Project ${project.slug} has the data of ${replaced.slug} now.`,
      `To get the old data back until ${until}: rowhouse projects restore ${replaced.slug}`,
    ]
      .map(clean)
      .join('\n');
  });
}

async function confirm(
  slug: string,
  options: ApiOptions & { yes?: boolean },
  step: Step,
  describe: (project: Project) => string,
): Promise<void> {
  if (options.yes) return;
  await askTo(options, slug, step, async () => {
    const { project } = await callApi<ProjectResponse>(options, 'GET', ['projects', slug]);
    return `${describe(project)}?`;
  });
}

function tableOf(branches: readonly Project[]): string {
  return formatTable(
    [
      { title: 'SLUG' },
      { title: 'NAME', max: 40 },
      { title: 'SIZE MB', align: 'right' },
      { title: 'STATUS' },
      { title: 'CREATED' },
      { title: 'EXPIRES' },
    ],
    branches.map((branch) => [
      branch.slug,
      branch.name,
      branch.size_mb.toFixed(2),
      branch.status,
      formatTime(branch.created_at),
      formatTime(branch.expires_at),
    ]),
  );
}
