// Ends a running job, after a question that names it.
import type { Job, JobResponse } from '@rowhouse/api';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, path } from '../api/request.ts';
import { Button } from './button.tsx';
import { Confirm } from './confirm.tsx';

export const nameOfJob = ({ kind, project }: Pick<Job, 'kind' | 'project'>) =>
  project ? `${kind} of ${project}` : kind;

export function StopJob({ job }: { job: Job }) {
  const client = useQueryClient();
  const [isAsking, setAsking] = useState(false);
  const stop = useMutation({
    mutationFn: () => api.delete<JobResponse>(path`jobs/${job.id}`),
    onSuccess: () => {
      setAsking(false);
      void client.invalidateQueries({ queryKey: ['job', job.id] });
      return client.invalidateQueries({ queryKey: ['jobs'] });
    },
  });
  return (
    <>
      <Button
        size="small"
        aria-label={`Stop the ${nameOfJob(job)}`}
        // The job ends within seconds, and this button with it.
        isBusy={stop.isSuccess}
        onClick={() => setAsking(true)}
      >
        {stop.isSuccess ? 'Stopping …' : 'Stop'}
      </Button>
      {isAsking ? (
        <Confirm
          title={`Stop the ${nameOfJob(job)}`}
          action="Stop the job"
          isBusy={stop.isPending}
          error={stop.error}
          onConfirm={() => stop.mutate()}
          onClose={() => setAsking(false)}
        >
          It ends within seconds. A project that it was filling is dropped.
        </Confirm>
      ) : null}
    </>
  );
}
