// Backup, verification and restore drill on demand. Each is a job; they also happen by themselves.
import type { Job, JobResponse } from '@rowhouse/api';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { api } from '../api/request.ts';
import { Button } from '../ui/button.tsx';
import { Field, SelectField } from '../ui/field.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';
import { plural } from '../ui/format.ts';
import { JobProgress, useJob } from '../ui/job-progress.tsx';

const actions = {
  backup: {
    title: 'Back up now',
    about: 'Backups are also taken by themselves. Projects can be used meanwhile.',
    path: 'backups',
  },
  verify: {
    title: 'Verify all backups',
    about: 'Reads everything back from the storage and decrypts it.',
    path: 'backups/verify',
  },
  drill: {
    title: 'Restore drill',
    about: 'Restores a project into a temporary copy and compares every table with the live one.',
    path: 'backups/drill',
  },
} as const;
type Action = keyof typeof actions;

export function BackupActions() {
  const [asked, setAsked] = useState<Action | null>(null);
  const [job, setJob] = useState<Job | null>(null);
  return (
    <>
      <div className="row row-wrap">
        {Object.entries(actions).map(([action, { title }]) => (
          <Button key={action} onClick={() => setAsked(action as Action)}>
            {title}
          </Button>
        ))}
      </div>
      {job ? <Started key={job.id} job={job} /> : null}
      {asked ? (
        <StartDialog
          action={asked}
          onStarted={(started) => {
            setJob(started);
            setAsked(null);
          }}
          onClose={() => setAsked(null)}
        />
      ) : null}
    </>
  );
}

type Props = { action: Action; onStarted: (job: Job) => void; onClose: () => void };

function StartDialog({ action, onStarted, onClose }: Props) {
  const client = useQueryClient();
  const { title, about, path } = actions[action];
  const [kind, setKind] = useState('incremental');
  const [project, setProject] = useState('');
  const bodies: Record<Action, object> = {
    backup: { kind },
    verify: {},
    drill: project.trim() === '' ? {} : { project: project.trim() },
  };
  const { once } = useIdempotencyKey();
  const start = useMutation({
    mutationFn: () => once((options) => api.post<JobResponse>(path, bodies[action], options)),
    onSuccess: ({ job }) => {
      void client.invalidateQueries({ queryKey: ['jobs'] });
      onStarted(job);
    },
  });
  const fields: Record<Action, ReactNode> = {
    backup: (
      <SelectField
        label="Kind"
        value={kind}
        onChange={setKind}
        options={[
          { value: 'incremental', label: 'incremental: what has changed since the last one' },
          { value: 'full', label: 'full: everything' },
        ]}
      />
    ),
    verify: null,
    drill: (
      <Field
        label="Project"
        value={project}
        onChange={setProject}
        placeholder="tea-shop"
        help="A slug. Empty: the project whose turn it is."
        mono
      />
    ),
  };
  return (
    <FormDialog
      title={title}
      action="Start"
      error={start.error}
      isBusy={start.isPending}
      onSubmit={() => start.mutate()}
      onClose={onClose}
    >
      <p className="muted">{about}</p>
      {fields[action]}
    </FormDialog>
  );
}

function Started({ job: started }: { job: Job }) {
  const { job } = useJob(started);
  const { project, compared_tables: compared } = job.result ?? {};
  return (
    <div className="stack-s">
      <JobProgress job={started} queryKeys={[['backups'], ['jobs']]} />
      {job.kind === 'drill' && typeof compared === 'number' ? (
        <p className="muted">
          {String(project)} was restored, and {plural(compared, 'table')} compared.
        </p>
      ) : null}
    </div>
  );
}
