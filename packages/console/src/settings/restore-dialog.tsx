// Restores a project to an earlier time or to a snapshot: beside it, or in its place.
import type { RestoringResponse } from '@rowhouse/api';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { api, path } from '../api/request.ts';
import { useOpenProject } from '../projects/use-open-project.ts';
import { useShownOnce } from '../session/shown-once.tsx';
import { Button } from '../ui/button.tsx';
import { SecretLine } from '../ui/code.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Field, SelectField } from '../ui/field.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';
import { plural } from '../ui/format.ts';
import { isDone, JobProgress, useJob } from '../ui/job-progress.tsx';

/** `snapshot` null: a time is asked for. */
type Props = { slug: string; snapshot: string | null; onClose: () => void };

export function RestoreDialog({ slug, snapshot, onClose }: Props) {
  const client = useQueryClient();
  const [at, setAt] = useState('');
  const [into, setInto] = useState('new');
  const [typed, setTyped] = useState('');
  const { once } = useIdempotencyKey();
  const shownOnce = useShownOnce(onClose);
  const restore = useMutation({
    mutationFn: () => {
      const state = snapshot === null ? { to: new Date(at).toISOString() } : { snapshot };
      const url = path`projects/${slug}/restore`;
      return shownOnce(
        () => once((options) => api.post<RestoringResponse>(url, { ...state, into }, options)),
        (started, close) => <Started slug={slug} started={started} onClose={close} />,
      );
    },
    onSuccess: () => client.invalidateQueries({ queryKey: ['projects'] }),
  });
  const isInPlace = into === 'in_place';
  const isReady = (snapshot !== null || at !== '') && (!isInPlace || typed === slug);
  return (
    <FormDialog
      title={snapshot === null ? 'Restore to a time' : `Restore ${snapshot}`}
      action="Restore"
      error={restore.error}
      isBusy={restore.isPending}
      isReady={isReady}
      isDanger={isInPlace}
      onSubmit={() => restore.mutate()}
      onClose={onClose}
      isShownLater
    >
      {snapshot === null ? (
        <Field
          label="State of"
          type="datetime-local"
          step={1}
          value={at}
          onChange={setAt}
          required
          autoFocus
          help="In the time zone of this browser."
        />
      ) : null}
      <SelectField
        label="Into"
        value={into}
        onChange={setInto}
        options={[
          { value: 'new', label: 'a new project, beside this one' },
          { value: 'in_place', label: 'this project, in place' },
        ]}
        help={
          isInPlace
            ? 'Keys stay as they are. The present state is kept as a deleted project for 7 days.'
            : 'This project does not change.'
        }
      />
      {isInPlace ? <Field label={`Type ${slug} to confirm`} value={typed} onChange={setTyped} mono /> : null}
    </FormDialog>
  );
}

const titles = {
  running: 'The restore runs',
  done: 'The restore is done',
  done_with_losses: 'The restore is done, but not everything could be restored',
  failed: 'The restore failed',
  cancelled: 'The restore was stopped',
};

type StartedProps = { slug: string; started: RestoringResponse; onClose: () => void };

function Started({ slug, started, onClose }: StartedProps) {
  const { project, api_key: apiKey, estimated_seconds: seconds } = started;
  const open = useOpenProject(project.slug, onClose);
  const { status } = useJob(started.job).job;
  const isReady = isDone(status);
  const shownKey = isReady || status === 'running' ? apiKey : undefined;
  return (
    <Dialog title={titles[status]} onClose={onClose} closesByButton={shownKey !== undefined}>
      <div className="stack">
        {status === 'running' ? (
          <p className="muted">It is expected to take about {plural(seconds, 'second')}.</p>
        ) : null}
        <JobProgress job={started.job} queryKeys={[['projects'], ['project', slug]]} />
        {shownKey ? (
          <>
            <p className="note note-warn">The key of the new project. Copy it now: it is not shown again.</p>
            <SecretLine text={shownKey} label="Key" />
          </>
        ) : null}
        <DialogActions>{isReady ? <Button onClick={open}>Open {project.name}</Button> : null}</DialogActions>
      </div>
    </Dialog>
  );
}
