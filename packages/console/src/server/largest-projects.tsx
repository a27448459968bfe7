// The projects that take most of the disk.
import type { Project, ProjectsResponse } from '@rowhouse/api';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { api } from '../api/request.ts';
import { Badge } from '../ui/badge.tsx';
import { Bar } from '../ui/bar.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { formatMb } from '../ui/format.ts';
import { List } from '../ui/list.tsx';
import { Section } from '../ui/page.tsx';
import { Skeleton } from '../ui/skeleton.tsx';

const shown = 10;

export function LargestProjects() {
  const { data, error } = useQuery({
    queryKey: ['projects', 'largest'],
    queryFn: ({ signal }) => api.get<ProjectsResponse>('projects', { order: 'size', limit: shown }, signal),
  });
  const largest = Math.max(1, data?.projects[0]?.size_mb ?? 0);
  return (
    <Section title="Projects by size" about={data?.has_more ? `The largest ${shown}.` : undefined}>
      {error ? <ErrorNote error={error} /> : null}
      {!data && !error ? <Skeleton lines={3} /> : null}
      {data?.projects.length === 0 ? <p className="faint">There are no projects yet.</p> : null}
      {data && data.projects.length > 0 ? (
        <div className="panel">
          <List
            label="Projects by size"
            columns={columns(largest)}
            items={data.projects}
            keyOf={({ id }) => id}
          />
        </div>
      ) : null}
    </Section>
  );
}

const columns = (largest: number) => [
  {
    title: 'Project',
    cell: ({ name, slug, status }: Project) => (
      <span className="row row-wrap">
        <Link href={`/projects/${slug}/usage`}>{name}</Link>
        {status === 'full' ? <Badge tone="bad">full</Badge> : null}
      </span>
    ),
  },
  {
    title: 'Share',
    cell: ({ name, size_mb }: Project) => (
      <span className="bar-cell">
        <Bar value={size_mb} max={largest} label={`Size of ${name} in megabytes`} kind="share" />
      </span>
    ),
  },
  { title: 'Size', align: 'end' as const, cell: ({ size_mb }: Project) => formatMb(size_mb) },
  {
    title: 'Limit',
    align: 'end' as const,
    cell: ({ limit_mb }: Project) => <span className="faint">{formatMb(limit_mb)}</span>,
  },
];
