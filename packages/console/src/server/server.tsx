// The installation: its health, its servers with disk and connections, the largest projects, backups, running jobs.
import type { ProjectsResponse, ReadyResponse } from '@rowhouse/api';
import { useQuery } from '@tanstack/react-query';
import { serversQuery } from '../api/queries.ts';
import { api, serviceRequest } from '../api/request.ts';
import { mayOperate, mayWrite } from '../session/may.ts';
import { useSession } from '../session/use-session.ts';
import { Badge } from '../ui/badge.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { formatMb, plural } from '../ui/format.ts';
import { Page } from '../ui/page.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { Backups } from './backups.tsx';
import { Jobs } from './jobs.tsx';
import { LargestProjects } from './largest-projects.tsx';
import { Servers } from './servers.tsx';

/** The largest page. */
const pageMax = 1000;

export function Server() {
  const session = useSession();
  const isOperator = mayOperate(session);
  const ready = useQuery({
    queryKey: ['ready'],
    queryFn: () => serviceRequest<ReadyResponse>('/readyz'),
    refetchInterval: 10_000,
  });
  const { data: servers } = useQuery({ ...serversQuery(), enabled: isOperator });
  const { data: listed } = useQuery({
    queryKey: ['projects', 'all'],
    queryFn: ({ signal }) => api.get<ProjectsResponse>('projects', { limit: pageMax }, signal),
  });
  const sum = (values: number[] | undefined) => (values ?? []).reduce((total, value) => total + value, 0);
  // The servers' own counts are some minutes old, but have all projects.
  const all = listed?.has_more ? undefined : listed?.projects;
  const projects = all?.length ?? sum(servers?.map((server) => server.projects));
  const usedMb = sum(all?.map(({ size_mb }) => size_mb) ?? servers?.map(({ used_mb }) => used_mb));
  return (
    <Page title="Server" about="The installation behind this console.">
      <div className="panel panel-pad">
        {ready.error ? <ErrorNote error={ready.error} /> : null}
        {ready.data ? (
          <dl className="facts">
            <dt>Status</dt>
            <dd>
              <Badge tone="good">ready</Badge>
            </dd>
            <dt>Rowhouse</dt>
            <dd>{ready.data.version}</dd>
            <dt>PostgreSQL</dt>
            <dd>{ready.data.postgres}</dd>
            <dt>Projects</dt>
            <dd>
              {listed && (servers || !isOperator)
                ? `${plural(projects, 'project')}, ${formatMb(usedMb)}`
                : '…'}
            </dd>
          </dl>
        ) : ready.error ? null : (
          <Skeleton lines={3} />
        )}
      </div>
      {isOperator ? <Servers /> : null}
      <LargestProjects />
      {isOperator ? <Backups /> : null}
      {mayWrite(session) ? <Jobs /> : null}
    </Page>
  );
}
