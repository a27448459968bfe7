// Copies of a project: for a test, or of an earlier time out of the backups.
import type { BranchesResponse, CreatedBranchResponse, Project } from '@rowhouse/api';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link } from 'wouter';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { api, path } from '../api/request.ts';
import { Badge } from '../ui/badge.tsx';
import { Button } from '../ui/button.tsx';
import { SecretLine } from '../ui/code.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';
import { formatAge, formatMb } from '../ui/format.ts';
import { JobProgress } from '../ui/job-progress.tsx';
import { List } from '../ui/list.tsx';
import { Section } from '../ui/page.tsx';
import { RestoreDialog } from './restore-dialog.tsx';

export function Branches({ slug }: { slug: string }) {
  const [isCreating, setCreating] = useState(false);
  const [isRestoring, setRestoring] = useState(false);
  const { data, error } = useQuery({
    queryKey: ['project', slug, 'branches'],
    queryFn: ({ signal }) => api.get<BranchesResponse>(path`projects/${slug}/branches`, undefined, signal),
  });
  return (
    <Section
      title="Branches and restore"
      about="A branch is a copy of this project with its own key, of now or of an earlier time."
      actions={
        <span className="row">
          <Button onClick={() => setRestoring(true)}>Restore to a time</Button>
          <Button onClick={() => setCreating(true)}>New branch</Button>
        </span>
      }
    >
      {error ? <ErrorNote error={error} /> : null}
      {data && data.branches.length > 0 ? (
        <div className="panel">
          <List label="Branches" columns={columns} items={data.branches} keyOf={({ id }) => id} />
        </div>
      ) : (
        <p className="faint">No branches yet.</p>
      )}
      {isRestoring ? <RestoreDialog slug={slug} snapshot={null} onClose={() => setRestoring(false)} /> : null}
      {isCreating ? <CreateBranch slug={slug} onClose={() => setCreating(false)} /> : null}
    </Section>
  );
}

const columns = [
  { title: 'Name', cell: ({ name, slug }: Project) => <Link href={`/projects/${slug}/tables`}>{name}</Link> },
  {
    title: 'Status',
    cell: ({ status }: Project) => <Badge tone={status === 'ready' ? 'good' : 'info'}>{status}</Badge>,
  },
  { title: 'Size', cell: ({ size_mb }: Project) => formatMb(size_mb) },
  {
    title: 'Created',
    cell: ({ created_at }: Project) => <span className="faint">{formatAge(created_at)}</span>,
  },
];

function CreateBranch({ slug, onClose }: { slug: string; onClose: () => void }) {
  const client = useQueryClient();
  const [name, setName] = useState('');
  const [at, setAt] = useState('');
  const { once } = useIdempotencyKey();
  const create = useMutation({
    mutationFn: () => {
      const body = { name: name.trim(), ...(at ? { at: new Date(at).toISOString() } : {}) };
      return once((options) =>
        api.post<CreatedBranchResponse>(path`projects/${slug}/branches`, body, options),
      );
    },
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ['projects'] });
      return client.invalidateQueries({ queryKey: ['project', slug, 'branches'] });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate();
  };
  if (create.data) {
    return (
      <Dialog title={`${create.data.project.name} is created`} onClose={onClose}>
        <div className="stack">
          <p className="note note-warn">The key of the branch. Copy it now: it is not shown again.</p>
          <SecretLine text={create.data.api_key} label="Key" />
          {create.data.job ? (
            <>
              <p className="muted">A job fills the branch. Its status is creating until then.</p>
              <JobProgress job={create.data.job} queryKeys={[['projects'], ['project', slug]]} />
            </>
          ) : null}
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog title="New branch" onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        {create.error ? <ErrorNote error={create.error} /> : null}
        <Field
          label="Name"
          value={name}
          onChange={setName}
          required
          autoFocus
          placeholder="Before the migration"
        />
        <Field
          label="State of"
          type="datetime-local"
          step={1}
          value={at}
          onChange={setAt}
          help="Empty: now. An earlier time is restored from the backups."
        />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isBusy={create.isPending} disabled={name.trim() === ''}>
            Create branch
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
