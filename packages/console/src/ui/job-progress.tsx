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
export const jobTones = { running: 'info', done: 'good', failed: 'bad', cancelled: 'plain' } as const;

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
          <Badge tone={jobTones[job.status]}>{job.status}</Badge>
          <span className="muted">{job.kind}</span>
        </span>
        <StopJob job={job} />
      </div>
      {error ? <ErrorNote error={error} /> : null}
      {job.status === 'running' ? (
        <Bar value={job.progress} max={1} label={`Progress of ${job.kind}`} kind="progress" />
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
