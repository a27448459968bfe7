// Ends a running job, after a question that names it.
import type { Job, JobKind, JobResponse } from '@rowhouse/api';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, path } from '../api/request.ts';
import { Button } from './button.tsx';
import { Confirm } from './confirm.tsx';
import { Dialog, DialogActions } from './dialog.tsx';

export const nameOfJob = ({ kind, project }: Pick<Job, 'kind' | 'project'>) =>
  project ? `${kind} of ${project}` : kind;

/** What becomes of its work. */
const consequences: Record<JobKind, string> = {
  import: 'The project that it fills is dropped.',
  branch: 'The branch that it fills is dropped.',
  reset: 'The branch keeps the state that it has.',
  restore: 'The project keeps the state that it has. A new project that it fills is dropped.',
  move: 'The project stays on its server.',
  drain: 'Projects that have moved stay where they are now.',
  backup: 'The unfinished backup is dropped. Earlier ones stay.',
  verify: 'No backup changes.',
  prune: 'What is deleted already stays deleted.',
  drill: 'The temporary copy is dropped.',
};

/** Nothing, unless the job runs or the person is asked. */
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
  if (job.status !== 'running') {
    return isAsking ? <Ended job={job} status={job.status} onClose={() => setAsking(false)} /> : null;
  }
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
          It ends within seconds. {consequences[job.kind]}
        </Confirm>
      ) : null}
    </>
  );
}

const outcomes = {
  done: 'It is done.',
  done_with_losses: 'It is done, with losses.',
  failed: 'It failed.',
  cancelled: 'It was stopped.',
};

type EndedProps = { job: Job; status: keyof typeof outcomes; onClose: () => void };

/** The answer came too late. */
function Ended({ job, status, onClose }: EndedProps) {
  return (
    <Dialog title={`The ${nameOfJob(job)} has ended`} onClose={onClose}>
      <div className="stack">
        <p className="muted">{outcomes[status]}</p>
        <DialogActions>
          <Button onClick={onClose}>OK</Button>
        </DialogActions>
      </div>
    </Dialog>
  );
}
