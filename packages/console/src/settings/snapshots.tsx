// Named moments of a project, to which it can be restored.
import type { Snapshot, SnapshotsResponse } from '@rowhouse/api';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { api, path } from '../api/request.ts';
import { Badge } from '../ui/badge.tsx';
import { Button } from '../ui/button.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';
import { formatAge, formatTime } from '../ui/format.ts';
import { List } from '../ui/list.tsx';
import { Section } from '../ui/page.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { toast } from '../ui/toast.tsx';
import { RestoreDialog } from './restore-dialog.tsx';

export function Snapshots({ slug }: { slug: string }) {
  const client = useQueryClient();
  const queryKey = ['project', slug, 'snapshots'];
  const [name, setName] = useState('');
  const [restored, setRestored] = useState<string | null>(null);
  const { data, error } = useQuery({
    queryKey,
    queryFn: ({ signal }) => api.get<SnapshotsResponse>(path`projects/${slug}/snapshots`, undefined, signal),
  });
  const reload = () => client.invalidateQueries({ queryKey });
  const { once } = useIdempotencyKey();
  const create = useMutation({
    mutationFn: () =>
      once((options) => api.post(path`projects/${slug}/snapshots`, { name: name.trim() }, options)),
    onSuccess: () => {
      setName('');
      return reload();
    },
  });
  const remove = useMutation({
    mutationFn: (snapshot: string) => api.delete(path`projects/${slug}/snapshots/${snapshot}`),
    onSuccess: reload,
    onError: toast.failed,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate();
  };
  return (
    <Section
      title="Snapshots"
      about="A snapshot names this moment. It takes no space: the backups contain it as long as they reach back to it."
    >
      {error ? <ErrorNote error={error} /> : null}
      {create.error ? <ErrorNote error={create.error} /> : null}
      <form className="filter-line" onSubmit={submit}>
        <Field
          label="Name of the snapshot"
          isLabelHidden
          placeholder="Before the migration"
          value={name}
          onChange={setName}
          maxLength={100}
        />
        <Button type="submit" isBusy={create.isPending} disabled={name.trim() === ''}>
          Take a snapshot
        </Button>
      </form>
      {!data && !error ? <Skeleton lines={2} /> : null}
      {data?.snapshots.length === 0 ? <p className="faint">No snapshots yet.</p> : null}
      {data && data.snapshots.length > 0 ? (
        <div className="panel">
          <List
            label="Snapshots"
            columns={columns(setRestored, remove.mutate)}
            items={data.snapshots}
            keyOf={(snapshot) => snapshot.name}
          />
        </div>
      ) : null}
      {restored !== null ? (
        <RestoreDialog slug={slug} snapshot={restored} onClose={() => setRestored(null)} />
      ) : null}
    </Section>
  );
}

const columns = (onRestore: (name: string) => void, onDelete: (name: string) => void) => [
  { title: 'Name', cell: ({ name }: Snapshot) => name },
  {
    title: 'Taken',
    cell: ({ at }: Snapshot) => (
      <time className="faint" dateTime={at} title={formatTime(at)}>
        {formatAge(at)}
      </time>
    ),
  },
  {
    title: 'State',
    cell: ({ is_restorable }: Snapshot) =>
      is_restorable ? <Badge tone="good">restorable</Badge> : <Badge>too old</Badge>,
  },
  {
    title: 'Actions',
    isTitleHidden: true,
    align: 'end' as const,
    cell: ({ name, is_restorable }: Snapshot) => (
      <span className="row row-wrap">
        <Button size="small" disabled={!is_restorable} onClick={() => onRestore(name)}>
          Restore
        </Button>
        <Button size="small" onClick={() => onDelete(name)}>
          Delete
        </Button>
      </span>
    ),
  },
];
