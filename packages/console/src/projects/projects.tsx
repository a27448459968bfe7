// All projects of the account: search, size against limit, create, and the deleted ones that can come back.
import type { Project } from '@rowhouse/api';
import { useInfiniteQuery } from '@tanstack/react-query';
import { lazy, Suspense, useDeferredValue, useState } from 'react';
import { Link, useLocation, useSearchParams } from 'wouter';
import { projectPagesQuery } from '../api/queries.ts';
import { mayCreateProjects } from '../session/may.ts';
import { useSession } from '../session/use-session.ts';
import { Badge } from '../ui/badge.tsx';
import { Bar } from '../ui/bar.tsx';
import { Button } from '../ui/button.tsx';
import { EmptyState } from '../ui/empty-state.tsx';
import { ErrorState } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';
import { formatAge, formatMb, plural } from '../ui/format.ts';
import { Icon } from '../ui/icons.tsx';
import { leaveFreely } from '../ui/leaving.ts';
import { List } from '../ui/list.tsx';
import { Page } from '../ui/page.tsx';
import { ShowMore } from '../ui/show-more.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { Tabs } from '../ui/tabs.tsx';
import { CreateProject } from './create-project.tsx';
import { DeletedProjects } from './deleted-projects.tsx';
import './projects.css';

const ImportProject = lazy(() =>
  import('./import-project.tsx').then((module) => ({ default: module.ImportProject })),
);

const tabs = [
  { key: 'live', label: 'Projects' },
  { key: 'deleted', label: 'Deleted' },
] as const;

export function Projects() {
  const [params, setParams] = useSearchParams();
  const [, go] = useLocation();
  const tab = params.has('deleted') ? 'deleted' : 'live';
  const mayCreate = mayCreateProjects(useSession());
  const create = () => go('/projects?new');
  const close = () => leaveFreely(() => go('/projects'));
  return (
    <Page
      title="Projects"
      about="Each project is a PostgreSQL database with an API of its own."
      actions={
        mayCreate ? (
          <>
            <Button icon={<Icon name="upload" />} onClick={() => go('/projects?import')}>
              Import
            </Button>
            <Button kind="primary" icon={<Icon name="plus" />} onClick={create}>
              New project
            </Button>
          </>
        ) : null
      }
    >
      <Tabs
        label="Projects"
        tabs={tabs}
        current={tab}
        onChange={(key) => setParams(key === 'deleted' ? { deleted: '' } : {})}
      >
        {tab === 'live' ? <LiveProjects onCreate={mayCreate ? create : null} /> : <DeletedProjects />}
      </Tabs>
      {params.has('new') && mayCreate ? <CreateProject onClose={close} /> : null}
      {params.has('import') && mayCreate ? (
        <Suspense fallback={null}>
          <ImportProject onClose={close} />
        </Suspense>
      ) : null}
    </Page>
  );
}

function LiveProjects({ onCreate }: { onCreate: (() => void) | null }) {
  const [search, setSearch] = useState('');
  const words = useDeferredValue(search.trim());
  const found = useInfiniteQuery(projectPagesQuery('live', words));
  const { data: projects, error } = found;
  const retry = () => void (found.isFetchNextPageError ? found.fetchNextPage() : found.refetch());
  if (!projects && !error && search === '') return <Skeleton lines={6} />;
  if (projects?.length === 0 && search === '' && !found.isPlaceholderData && !error) {
    return (
      <EmptyState
        icon="database"
        title="Create your first project"
        action={
          onCreate ? (
            <Button kind="primary" icon={<Icon name="plus" />} onClick={onCreate}>
              New project
            </Button>
          ) : null
        }
      >
        It takes less than a second and comes with tables, SQL, users and an API key.
      </EmptyState>
    );
  }
  return (
    <>
      <div className="filter-line">
        <Field
          label="Search projects"
          isLabelHidden
          type="search"
          placeholder="Search by name or slug"
          value={search}
          onChange={setSearch}
          maxLength={100}
        />
        <span className="faint" role="status">
          {projects ? countOf(projects, found.hasNextPage) : null}
        </span>
      </div>
      {projects && projects.length > 0 ? (
        <div className="panel">
          <List label="Projects" columns={columns} items={projects} keyOf={(project) => project.id} />
          {error ? null : <ShowMore pages={found} />}
        </div>
      ) : null}
      {error ? <ErrorState error={error} onRetry={retry} /> : null}
      {!projects && !error ? <Skeleton lines={6} /> : null}
      {projects?.length === 0 && !error ? (
        <EmptyState icon="search" title="No project matches">
          Search for a part of the name or of the slug.
        </EmptyState>
      ) : null}
    </>
  );
}

const countOf = (projects: Project[], hasMore: boolean) =>
  hasMore ? `the newest ${projects.length}` : plural(projects.length, 'project');

const tones = { ready: 'good', full: 'bad', creating: 'info', moving: 'info', deleted: 'plain' } as const;

const columns = [
  {
    title: 'Name',
    cell: (project: Project) => (
      <span className="two-lines">
        <Link href={`/projects/${project.slug}/tables`}>{project.name}</Link>
        <span className="faint mono">{project.slug}</span>
      </span>
    ),
  },
  {
    title: 'Status',
    cell: ({ status, parent }: Project) => (
      <span className="row">
        <Badge tone={tones[status]}>{status}</Badge>
        {parent ? <Badge>branch of {parent}</Badge> : null}
      </span>
    ),
  },
  {
    title: 'Size',
    cell: ({ size_mb, limit_mb, name }: Project) => (
      <span className="project-size">
        <span className="row">
          <span>{formatMb(size_mb)}</span>
          <span className="faint">of {formatMb(limit_mb)}</span>
        </span>
        <Bar value={size_mb} max={limit_mb} label={`Size of ${name} in megabytes`} />
      </span>
    ),
  },
  {
    title: 'Created',
    align: 'end' as const,
    cell: ({ created_at }: Project) => (
      <time className="faint" dateTime={created_at}>
        {formatAge(created_at)}
      </time>
    ),
  },
];
