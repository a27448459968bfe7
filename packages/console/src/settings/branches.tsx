// Copies of a project: for a test, or of an earlier time out of the backups.
import type { BranchesResponse, Project } from '@rowhouse/api';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { api, path } from '../api/request.ts';
import { Badge } from '../ui/badge.tsx';
import { Button } from '../ui/button.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { formatAge, formatMb, formatTime } from '../ui/format.ts';
import { List } from '../ui/list.tsx';
import { Section } from '../ui/page.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { CreateBranch } from './create-branch.tsx';
import { RestoreDialog } from './restore-dialog.tsx';

export function Branches({ project }: { project: Project }) {
  const { slug } = project;
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
      {!data && !error ? <Skeleton lines={2} /> : null}
      {data?.branches.length === 0 ? <p className="faint">No branches yet.</p> : null}
      {data && data.branches.length > 0 ? (
        <div className="panel">
          <List label="Branches" columns={columns} items={data.branches} keyOf={({ id }) => id} />
        </div>
      ) : null}
      {isRestoring ? <RestoreDialog slug={slug} snapshot={null} onClose={() => setRestoring(false)} /> : null}
      {isCreating ? <CreateBranch project={project} onClose={() => setCreating(false)} /> : null}
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
  {
    title: 'Deleted',
    cell: ({ expires_at }: Project) =>
      expires_at ? (
        <time className="faint" dateTime={expires_at} title={formatTime(expires_at)}>
          {formatAge(expires_at)}
        </time>
      ) : (
        <span className="faint">never</span>
      ),
  },
];
