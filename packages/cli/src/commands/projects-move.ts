// rowhouse projects move, and waiting for the job of a move or a drain.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Job, JobResponse, MoveProject, MoveResponse } from '@rowhouse/api';
import { type ApiOptions, callApi } from '../api.ts';
import { failure } from '../failure.ts';
import { progressOf, show } from '../output.ts';
import { clean } from '../table.ts';

export type MoveOptions = ApiOptions & { maxPauseMs?: number; mode?: NonNullable<MoveProject['mode']> };

const lookMs = 300;

/** Stopping the command does not stop the move. */
export async function move(slug: string, server: string, options: MoveOptions): Promise<void> {
  const body: MoveProject = {
    server,
    ...(options.mode !== undefined && { mode: options.mode }),
    ...(options.maxPauseMs !== undefined && { max_pause_ms: options.maxPauseMs }),
  };
  const started = await callApi<MoveResponse>(options, 'POST', ['projects', slug, 'move'], { body });
  const why = started.reason ? ` by a dump (${clean(started.reason)})` : ' online';
  const about = `Moving${why}; requests will wait for about ${started.expected_pause_ms} ms`;
  const job = await waitForJob(options, started.job, about);
  show(options, { ...started, job }, () => {
    const pause = job.result?.pause_ms;
    const waited = typeof pause === 'number' ? ` Requests waited for ${pause} ms.` : '';
    const { mode, reason } = job.result ?? {};
    const how = mode === 'dump' ? ` (by a dump: ${reason})` : ' (online)';
    return clean(`Moved ${slug} to ${server}${mode ? how : ''}.${waited}`);
  });
}

/** Fails as the job did. */
export async function waitForJob(options: ApiOptions, started: Job, about: string): Promise<Job> {
  let job = started;
  const tell = progressOf(options);
  try {
    while (job.status === 'running') {
      tell(`${about} … ${Math.floor(job.progress * 100)} %`);
      await sleep(lookMs);
      ({ job } = await callApi<JobResponse>(options, 'GET', ['jobs', job.id]));
    }
  } finally {
    tell(null);
  }
  if (job.status === 'done') return job;
  const { error } = job;
  throw failure(error?.code ?? 'internal_error', error?.message ?? 'The job failed.', error?.hint);
}
