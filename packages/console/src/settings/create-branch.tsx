// The form of a new branch: of which state, how it is copied, its limit, and when it is deleted.
import type { CreateBranch as CreateBranchBody, CreatedBranchResponse, Project } from '@rowhouse/api';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { api, path } from '../api/request.ts';
import { useShownOnce } from '../session/shown-once.tsx';
import { SecretLine } from '../ui/code.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Field, SelectField } from '../ui/field.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';
import { isDone, JobProgress, useJob } from '../ui/job-progress.tsx';
import { toast } from '../ui/toast.tsx';
import { mayLimit } from './lower-limit.ts';

/** `past` is the console's own: the API takes `at` instead of a mode. */
const modes = {
  copy: {
    label: 'now, by a copy of the files',
    help: 'Fast. Requests of the project wait for a moment, and direct connections to it are closed.',
  },
  live: {
    label: 'now, without a pause',
    help: 'A job exports the project and imports it. The project is not paused. It takes longer.',
  },
  past: { label: 'an earlier time', help: 'A job restores it from the backups.' },
} as const;
type Mode = keyof typeof modes;
const options = Object.entries(modes).map(([value, { label }]) => ({ value, label }));

type Props = { project: Project; onClose: () => void };

export function CreateBranch({ project, onClose }: Props) {
  const { slug: parent } = project;
  const client = useQueryClient();
  const [name, setName] = useState('');
  const [slug, setSlug] = useState('');
  const [mode, setMode] = useState<Mode>('copy');
  const [at, setAt] = useState('');
  const [limitMb, setLimitMb] = useState('');
  const [expiresAt, setExpiresAt] = useState('');
  const { once } = useIdempotencyKey();
  const shownOnce = useShownOnce(onClose);
  const create = useMutation({
    mutationFn: () => {
      const body: CreateBranchBody = {
        name: name.trim(),
        ...(mode === 'past' ? { at: new Date(at).toISOString() } : { mode }),
        ...(slug && { slug }),
        ...(limitMb && { limit_mb: Number(limitMb) }),
        ...(expiresAt && { expires_at: new Date(expiresAt).toISOString() }),
      };
      return shownOnce(
        () => once((sent) => api.post<CreatedBranchResponse>(path`projects/${parent}/branches`, body, sent)),
        (created, close) => <Created parent={parent} created={created} onClose={close} />,
      );
    },
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ['projects'] });
      return client.invalidateQueries({ queryKey: ['project', parent, 'branches'] });
    },
  });
  const begin = async () => {
    const limit = limitMb === '' ? project.limit_mb : Number(limitMb);
    if (await mayLimit(project, name.trim(), limit)) create.mutate();
  };
  return (
    <FormDialog
      title="New branch"
      action="Create branch"
      error={create.error}
      isBusy={create.isPending}
      isReady={name.trim() !== '' && (mode !== 'past' || at !== '')}
      onSubmit={() => void begin().catch(toast.failed)}
      onClose={onClose}
      isShownLater
    >
      <Field
        label="Name"
        value={name}
        onChange={setName}
        maxLength={100}
        required
        autoFocus
        placeholder="Before the migration"
      />
      <SelectField
        label="State of"
        value={mode}
        onChange={(next) => setMode(next as Mode)}
        options={options}
        help={modes[mode].help}
      />
      {mode === 'past' ? (
        <Field
          label="Time"
          type="datetime-local"
          step={1}
          value={at}
          onChange={setAt}
          required
          help="In the time zone of this browser."
        />
      ) : null}
      <Field label="Slug" value={slug} onChange={setSlug} placeholder="from the name" mono />
      <Field
        label="Size limit"
        value={limitMb}
        onChange={setLimitMb}
        inputMode="numeric"
        pattern="[0-9]+"
        placeholder={String(project.limit_mb)}
        suffix="MB"
        help="Empty: the limit of the project."
      />
      <Field
        label="Deleted after"
        type="datetime-local"
        step={1}
        value={expiresAt}
        onChange={setExpiresAt}
        help="Empty: never."
      />
    </FormDialog>
  );
}

const titles = {
  running: (name: string) => `${name} is being created`,
  done: (name: string) => `${name} is created`,
  done_with_losses: (name: string) => `${name} is created, but not all of it`,
  failed: (name: string) => `${name} was not created`,
  cancelled: (name: string) => `${name} was not created`,
};

type CreatedProps = { parent: string; created: CreatedBranchResponse; onClose: () => void };

function Created({ parent, created, onClose }: CreatedProps) {
  const { project, api_key: apiKey } = created;
  const { job } = useJob(created.job ?? null);
  const status = job?.status ?? 'done';
  const showsKey = status === 'running' || isDone(status);
  return (
    <Dialog title={titles[status](project.name)} onClose={onClose} closesByButton={showsKey}>
      <div className="stack">
        {showsKey ? (
          <>
            <p className="note note-warn">The key of the branch. Copy it now: it is not shown again.</p>
            <SecretLine text={apiKey} label="Key" />
          </>
        ) : null}
        {status === 'running' ? (
          <p className="muted">A job fills the branch. Its status is creating until then.</p>
        ) : null}
        {job ? <JobProgress job={job} queryKeys={[['projects'], ['project', parent]]} /> : null}
      </div>
    </Dialog>
  );
}
