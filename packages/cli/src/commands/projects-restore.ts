// rowhouse projects restore: a deleted project, or the state of an earlier time.
import { setTimeout as sleep } from 'node:timers/promises';
import type { JobResponse, ProjectResponse, RestoreProject, RestoringResponse } from '@rowhouse/api';
import { type ApiOptions, callApi } from '../api.ts';
import { askTo } from '../ask.ts';
import { failure } from '../failure.ts';
import { progressOf, show } from '../output.ts';
import { isDone, skippedLines } from '../skipped.ts';
import { startedFields } from '../started.ts';
import { clean, formatFields } from '../table.ts';

export type RestoreOptions = ApiOptions & {
  to?: string;
  snapshot?: string;
  inPlace?: boolean;
  yes?: boolean;
  server?: string;
};

const lookMs = 500;

export async function restore(
  slug: string,
  options: RestoreOptions,
  fieldsOf: (project: ProjectResponse['project']) => [string, string | number][],
): Promise<void> {
  const { to, snapshot, inPlace, server } = options;
  if (to !== undefined || snapshot !== undefined) {
    if (inPlace && !options.yes) {
      const state = to ?? `the snapshot "${snapshot}"`;
      const kept = 'Its present state is kept as a deleted project for some days.';
      await askTo(options, slug, 'replace', async () => `Replace ${slug} by its state of ${state}? ${kept}`);
    }
    const into = inPlace ? 'in_place' : 'new';
    const moment = { ...(to !== undefined && { to }), ...(snapshot !== undefined && { snapshot }) };
    return restoreTo(slug, options, { ...moment, into, ...(server !== undefined && { server }) });
  }
  if (inPlace || server !== undefined)
    throw failure(
      'invalid_request',
      `${inPlace ? '--in-place' : '--server'} requires a moment.`,
      'Add --to <time> or --snapshot <name>.',
    );
  const answer = await callApi<ProjectResponse>(options, 'POST', ['projects', slug, 'restore']);
  show(options, answer, ({ project }) => formatFields(fieldsOf(project)));
}

/** Stopping the command does not stop the restore. */
async function restoreTo(slug: string, options: ApiOptions, body: RestoreProject): Promise<void> {
  const started = await callApi<RestoringResponse>(options, 'POST', ['projects', slug, 'restore'], { body });
  const { project, api_key: key, estimated_seconds: seconds } = started;
  let { job } = started;
  // At once: the key is shown only once, and the wait can be interrupted.
  if (key && !options.json) show(options, started, () => startedFields(project.slug, key, job.id));
  const tell = progressOf(options);
  try {
    while (job.status === 'running') {
      tell(`Restoring … ${Math.floor(job.progress * 100)} % (about ${seconds} s in total)`);
      await sleep(lookMs);
      ({ job } = await callApi<JobResponse>(options, 'GET', ['jobs', job.id]));
    }
  } finally {
    tell(null);
  }
  if (!isDone(job))
    throw failure(
      job.error?.code ?? 'internal_error',
      job.error?.message ?? 'The job failed.',
      job.error?.hint,
    );
  show(options, { ...started, job }, () => {
    const lines = [`Restored ${slug} as of ${job.result?.restored_to} into ${project.slug}.`];
    const last = job.result?.last_change_at;
    if (last) lines.push(`The last change on its server until then was at ${last}.`);
    if (!key) lines.push(`To get the replaced state back: rowhouse projects restore ${job.project}`);
    return [...lines.map(clean), ...skippedLines(job)].join('\n');
  });
  if (job.status === 'done_with_losses') process.exitCode = 1;
}
