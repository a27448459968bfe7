// Drains a server: it takes no new projects, and a job can move those that it has.
import type { DrainResponse, Job, ListedServer } from '@rowhouse/api';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, path } from '../api/request.ts';
import { Dialog } from '../ui/dialog.tsx';
import { CheckField } from '../ui/field.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';
import { JobProgress, useJob } from '../ui/job-progress.tsx';
import { toast } from '../ui/toast.tsx';

export function DrainServer({ server, onClose }: { server: ListedServer; onClose: () => void }) {
  const { id, name } = server;
  const client = useQueryClient();
  const [isMoving, setMoving] = useState(false);
  const drain = useMutation({
    mutationFn: () => api.post<DrainResponse>(path`servers/${String(id)}/drain`, { move: isMoving }),
    // Also if no other server takes the projects: this one takes no new ones from then on.
    onSettled: () => {
      void client.invalidateQueries({ queryKey: ['jobs'] });
      return client.invalidateQueries({ queryKey: ['servers'] });
    },
    onSuccess: ({ job }) => {
      if (job) return;
      toast.done(`${name} takes no new projects.`);
      onClose();
    },
  });
  const title = `Drain ${name}`;
  if (drain.data?.job) {
    return (
      <Dialog title={title} onClose={onClose}>
        <Draining job={drain.data.job} name={name} />
      </Dialog>
    );
  }
  return (
    <FormDialog
      title={title}
      action="Drain"
      error={drain.error}
      isBusy={drain.isPending}
      onSubmit={() => drain.mutate()}
      onClose={onClose}
      isBrief
    >
      <p className="muted">
        {name} then takes no new projects. Those that it has stay and work, unless you move them.
      </p>
      <CheckField
        label="Move its projects to other servers"
        help="Requests of a project wait while it is moved, and see no error."
        checked={isMoving}
        onChange={setMoving}
      />
    </FormDialog>
  );
}

function Draining({ job: started, name }: { job: Job; name: string }) {
  const { left = [] } = (useJob(started).job.result ?? {}) as {
    left?: { project: string; reason: string }[];
  };
  return (
    <div className="stack">
      <p className="muted">The projects of {name} move to other servers, a few at a time.</p>
      <JobProgress job={started} queryKeys={[['servers'], ['jobs']]} />
      {left.map(({ project, reason }) => (
        <p key={project} className="note note-warn">
          {project} stays: {reason}
        </p>
      ))}
    </div>
  );
}
