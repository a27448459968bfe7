// rowhouse jobs: lists, shows and cancels long work in the service.
import type { Job, JobResponse, JobsResponse } from '@rowhouse/api';
import type { Command } from 'commander';
import { type ApiOptions, callApi, withApiOptions, withListOptions } from '../api.ts';
import { show, showList } from '../output.ts';
import { clean, formatFields, formatTable } from '../table.ts';
import { formatTime } from '../when.ts';

export function addJobs(program: Command): void {
  const jobs = program
    .command('jobs')
    .summary('list, show and cancel long work: imports, restores, backups')
    .description(
      'Jobs: imports, branches, restores and backups. A job runs in the service, whether a command waits for it or not.',
    );
  const add = (usage: string, about: string) => withApiOptions(jobs.command(usage).description(about));

  withListOptions(jobs.command('list').description('List jobs of the last 30 days, newest first.')).action(
    list,
  );
  add('show <id>', 'Show one job.').action(showOne);
  add('cancel <id>', 'End a job that is running. It leaves nothing behind.').action(cancel);
}

async function list(options: ApiOptions): Promise<void> {
  const answer = await callApi<JobsResponse>(options, 'GET', ['jobs']);
  showList(options, answer, answer.jobs, {
    table: () => tableOf(answer.jobs),
    empty: 'There were no jobs within the last 30 days.',
  });
}

async function showOne(id: string, options: ApiOptions): Promise<void> {
  const answer = await callApi<JobResponse>(options, 'GET', ['jobs', id]);
  show(options, answer, ({ job }) => describe(job));
}

async function cancel(id: string, options: ApiOptions): Promise<void> {
  const answer = await callApi<JobResponse>(options, 'DELETE', ['jobs', id]);
  show(options, answer, ({ job: { status } }) =>
    clean(
      status === 'running'
        ? `Job ${id} ends within seconds. To see it: rowhouse jobs show ${id}`
        : `Job ${id} has ended already: ${status}.`,
    ),
  );
}

function tableOf(jobs: readonly Job[]): string {
  return formatTable(
    [
      { title: 'ID' },
      { title: 'KIND' },
      { title: 'PROJECT' },
      { title: 'STATUS' },
      { title: 'DONE', align: 'right' },
      { title: 'STARTED' },
      { title: 'ENDED' },
    ],
    jobs.map((job) => [
      job.id,
      job.kind,
      job.project ?? '-',
      job.status,
      percentOf(job),
      formatTime(job.started_at),
      formatTime(job.ended_at),
    ]),
  );
}

function describe(job: Job): string {
  const { error, result } = job;
  return formatFields([
    ['id', job.id],
    ['kind', job.kind],
    ['project', job.project ?? '-'],
    ['status', job.status],
    ['done', percentOf(job)],
    ['started', formatTime(job.started_at)],
    ['ended', formatTime(job.ended_at)],
    ...(error ? [['error', error.message] as [string, string]] : []),
    ...(error?.hint ? [['hint', error.hint] as [string, string]] : []),
    ...(result ? [['result', JSON.stringify(result)] as [string, string]] : []),
  ]);
}

function percentOf({ progress }: Job): string {
  return `${Math.floor(progress * 100)} %`;
}
