// A job that runs on the server, until it ends. The page can be left: the job goes on.
import type { Job, JobResponse } from '@rowhouse/api';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { api, path } from '../api/request.ts';
import { Badge } from './badge.tsx';
import { Bar } from './bar.tsx';

const pollMs = 700;
export const jobTones = { running: 'info', done: 'good', failed: 'bad', cancelled: 'plain' } as const;

/** `queryKeys`: what is read again when the job has ended. */
export function JobProgress({ job: started, queryKeys }: { job: Job; queryKeys: string[][] }) {
  const client = useQueryClient();
  const { data: job = started } = useQuery({
    queryKey: ['job', started.id],
    queryFn: ({ signal }) => api.get<JobResponse>(path`jobs/${started.id}`, undefined, signal),
    select: (answer) => answer.job,
    refetchInterval: ({ state }) =>
      (state.data?.job.status ?? started.status) === 'running' ? pollMs : false,
  });
  const keys = JSON.stringify(queryKeys);
  useEffect(() => {
    if (job.status === 'running') return;
    for (const queryKey of JSON.parse(keys) as string[][]) void client.invalidateQueries({ queryKey });
  }, [job.status, client, keys]);
  return (
    <div className="stack-s" role="status">
      <div className="row">
        <Badge tone={jobTones[job.status]}>{job.status}</Badge>
        <span className="muted">{job.kind}</span>
      </div>
      {job.status === 'running' ? (
        <Bar value={job.progress} max={1} label={`Progress of ${job.kind}`} kind="progress" />
      ) : null}
      {job.error ? <p className="note note-bad">{job.error.message}</p> : null}
    </div>
  );
}
