// A job that runs on the server, until it ends. The page can be left: the job goes on.
import type { Job, JobResponse } from '@rowhouse/api';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { ApiError } from '../api/error.ts';
import { api, path } from '../api/request.ts';
import { Badge } from './badge.tsx';
import { Bar } from './bar.tsx';
import { ErrorNote } from './error-state.tsx';
import { StopJob } from './stop-job.tsx';

const pollMs = 700;
export const jobTones = {
  running: 'info',
  done: 'good',
  done_with_losses: 'warn',
  failed: 'bad',
  cancelled: 'plain',
} as const;
export const jobWords = {
  running: 'running',
  done: 'done',
  done_with_losses: 'done with losses',
  failed: 'failed',
  cancelled: 'cancelled',
} as const;

/** The project that the job fills is ready. */
export const isDone = (status: Job['status']) => status === 'done' || status === 'done_with_losses';

/**
 * The job as it is now, or as it was before `error`. It is read until it has ended, or until the service says that this
 * person cannot read it. null: there is no job.
 */
export function useJob<Started extends Job | null>(
  started: Started,
): { job: Job | Started; error: Error | null } {
  const { data, error } = useQuery({
    queryKey: ['job', started?.id],
    queryFn: ({ signal }) => api.get<JobResponse>(path`jobs/${started?.id ?? ''}`, undefined, signal),
    select: (answer) => answer.job,
    enabled: started !== null,
    refetchInterval: ({ state }) =>
      (state.data?.job ?? started)?.status === 'running' && !isFinal(state.error) ? pollMs : false,
  });
  return { job: data ?? started, error };
}

const isFinal = (error: unknown) => error instanceof ApiError && [403, 404].includes(error.status);

/** `queryKeys`: what is read again when the job has ended. */
export function JobProgress({ job: started, queryKeys }: { job: Job; queryKeys: string[][] }) {
  const client = useQueryClient();
  const { job, error } = useJob(started);
  const keys = JSON.stringify(queryKeys);
  useEffect(() => {
    if (job.status === 'running') return;
    for (const queryKey of JSON.parse(keys) as string[][]) void client.invalidateQueries({ queryKey });
  }, [job.status, client, keys]);
  return (
    <div className="stack-s">
      <div className="row">
        <span className="row grow" role="status">
          <Badge tone={jobTones[job.status]}>{jobWords[job.status]}</Badge>
          <span className="muted">{job.kind}</span>
        </span>
        <StopJob job={job} />
      </div>
      {error ? <ErrorNote error={error} /> : null}
      {job.status === 'running' ? (
        <Bar value={job.progress} max={1} label={`Progress of ${job.kind}`} kind="progress" />
      ) : null}
      {job.status === 'done_with_losses' ? (
        <div className="note note-warn" role="alert">
          <p>Some of the dump could not be imported. Check what is missing before you use the project.</p>
          <p className="note-hint">{firstLosses(job)}</p>
        </div>
      ) : null}
      {job.error ? (
        <div className="note note-bad" role="alert">
          <p>{job.error.message}</p>
          {job.error.hint ? <p className="note-hint">{job.error.hint}</p> : null}
        </div>
      ) : null}
    </div>
  );
}

/** A report has no more lines, each of which can stand for many entries. */
export const maxListed = 200;

/** In one line. The report of an import lists all. */
function firstLosses({ result }: Job): string {
  const { skipped, lost_count: count } = (result ?? {}) as {
    skipped?: { entry: string; lost?: boolean }[];
    lost_count?: number;
  };
  const lost = (skipped ?? []).filter((one) => one.lost).map(({ entry }) => entry);
  const shown = lost.slice(0, 5);
  const more = lost.length >= maxListed ? (count ?? 0) - shown.length : lost.length - shown.length;
  return [...shown, ...(more > 0 ? [`${more} more`] : [])].join('; ');
}
