import type { Project } from '@rowhouse/api';
import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query';
import { projectPagesQuery } from '../api/queries.ts';
import { api, path } from '../api/request.ts';
import { mayManageProjects } from '../session/may.ts';
import { useSession } from '../session/use-session.ts';
import { Button } from '../ui/button.tsx';
import { EmptyState } from '../ui/empty-state.tsx';
import { ErrorState } from '../ui/error-state.tsx';
import { formatAge, formatMb } from '../ui/format.ts';
import { List } from '../ui/list.tsx';
import { ShowMore } from '../ui/show-more.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { toast } from '../ui/toast.tsx';

export function DeletedProjects() {
  const { data: projects, error, refetch, ...pages } = useInfiniteQuery(projectPagesQuery('deleted'));
  if (error) return <ErrorState error={error} onRetry={() => void refetch()} />;
  if (!projects) return <Skeleton />;
  if (projects.length === 0) {
    return (
      <EmptyState icon="trash" title="No deleted projects">
        A deleted project stays here for 7 days and can be restored with all of its data and keys.
      </EmptyState>
    );
  }
  return (
    <div className="panel">
      <List label="Deleted projects" columns={columns} items={projects} keyOf={(project) => project.id} />
      <ShowMore pages={pages} />
    </div>
  );
}

function Restore({ project }: { project: Project }) {
  const client = useQueryClient();
  const mayRestore = mayManageProjects(useSession());
  const restore = useMutation({
    mutationFn: () => api.post(path`projects/${project.slug}/restore`),
    onSuccess: () => {
      toast.done(`${project.name} is back.`);
      return client.invalidateQueries({ queryKey: ['projects'] });
    },
    onError: toast.failed,
  });
  if (!mayRestore) return null;
  return (
    <Button size="small" isBusy={restore.isPending} onClick={() => restore.mutate()}>
      Restore
    </Button>
  );
}

const columns = [
  {
    title: 'Name',
    cell: ({ name, slug }: Project) => (
      <span className="two-lines">
        <span>{name}</span>
        <span className="faint mono">{slug}</span>
      </span>
    ),
  },
  { title: 'Size', cell: ({ size_mb }: Project) => formatMb(size_mb) },
  { title: 'Deleted', cell: ({ deleted_at }: Project) => (deleted_at ? formatAge(deleted_at) : '') },
  {
    title: 'Kept until',
    cell: ({ dropped_after }: Project) => (dropped_after ? formatAge(dropped_after) : ''),
  },
  {
    title: 'Restore',
    isTitleHidden: true,
    align: 'end' as const,
    cell: (project: Project) => <Restore project={project} />,
  },
];
