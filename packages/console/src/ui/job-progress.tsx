// A job that runs on the server, until it ends. The page can be left: the job goes on.
import type { Job, JobResponse } from '@rowhouse/api';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { api, path } from '../api/request.ts';
import { Badge } from './badge.tsx';
import { Bar } from './bar.tsx';
import { StopJob } from './stop-job.tsx';

const pollMs = 700;
export const jobTones = { running: 'info', done: 'good', failed: 'bad', cancelled: 'plain' } as const;

/** The job as it is now. It is read until it has ended. */
export function useJob(started: Job): Job {
  const { data: job = started } = useQuery({
    queryKey: ['job', started.id],
    queryFn: ({ signal }) => api.get<JobResponse>(path`jobs/${started.id}`, undefined, signal),
    select: (answer) => answer.job,
    refetchInterval: ({ state }) =>
      (state.data?.job.status ?? started.status) === 'running' ? pollMs : false,
  });
  return job;
}

/** `queryKeys`: what is read again when the job has ended. */
export function JobProgress({ job: started, queryKeys }: { job: Job; queryKeys: string[][] }) {
  const client = useQueryClient();
  const job = useJob(started);
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
        {job.status === 'running' ? <StopJob job={job} /> : null}
      </div>
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
