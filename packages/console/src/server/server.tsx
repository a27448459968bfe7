// The installation: version, backups, servers of the fleet, running jobs, and the projects by size.
import type {
  BackupsResponse,
  Server as FleetServer,
  Job,
  ReadyResponse,
  ServersResponse,
} from '@rowhouse/api';
import { useQuery } from '@tanstack/react-query';
import { jobsQuery, projectsQuery } from '../api/queries.ts';
import { api, serviceRequest } from '../api/request.ts';
import { Badge } from '../ui/badge.tsx';
import { Bar } from '../ui/bar.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { formatAge, formatMb, plural } from '../ui/format.ts';
import { jobTones } from '../ui/job-progress.tsx';
import { List } from '../ui/list.tsx';
import { Page, Section } from '../ui/page.tsx';
import { Skeleton } from '../ui/skeleton.tsx';

export function Server() {
  const ready = useQuery({
    queryKey: ['ready'],
    queryFn: () => serviceRequest<ReadyResponse>('/readyz'),
    refetchInterval: 10_000,
  });
  const { data: projects } = useQuery(projectsQuery());
  const total = (projects ?? []).reduce((sum, { size_mb }) => sum + size_mb, 0);
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
            <dd>{projects ? `${plural(projects.length, 'project')}, ${formatMb(total)}` : '…'}</dd>
          </dl>
        ) : ready.error ? null : (
          <Skeleton lines={3} />
        )}
      </div>
      <Backups />
      <Servers />
      <Jobs />
    </Page>
  );
}

function Backups() {
  const { data, error } = useQuery({
    queryKey: ['backups'],
    queryFn: ({ signal }) => api.get<BackupsResponse>('backups', undefined, signal),
  });
  return (
    <Section title="Backups">
      {error ? <ErrorNote error={error} /> : null}
      {data ? (
        <div className="panel panel-pad stack">
          {data.is_on_data_disk ? (
            <p className="note note-warn">
              The backups are on the disk of the data. If it is lost, so are they. Set ROWHOUSE_BACKUP_URL.
            </p>
          ) : null}
          {data.damaged.length > 0 ? (
            <p className="note note-bad">{plural(data.damaged.length, 'backup')} cannot be read.</p>
          ) : null}
          <dl className="facts">
            <dt>Storage</dt>
            <dd className="mono">{data.storage}</dd>
            <dt>Backups</dt>
            <dd>{plural(data.backups.length, 'backup')}</dd>
            <dt>Can be restored</dt>
            <dd>
              {data.oldest_restorable
                ? `every moment since ${formatAge(data.oldest_restorable)}`
                : 'nothing yet'}
            </dd>
            <dt>Not stored yet</dt>
            <dd>{data.lag_seconds === null ? 'unknown' : `${Math.round(data.lag_seconds)} s of changes`}</dd>
            <dt>Last verified</dt>
            <dd>{data.last_verified_at ? formatAge(data.last_verified_at) : 'never'}</dd>
          </dl>
        </div>
      ) : null}
    </Section>
  );
}

function Servers() {
  const { data, error } = useQuery({
    queryKey: ['servers'],
    queryFn: ({ signal }) => api.get<ServersResponse>('servers', undefined, signal),
  });
  return (
    <Section title="PostgreSQL servers">
      {error ? <ErrorNote error={error} /> : null}
      {data ? (
        <div className="panel">
          <List label="Servers" columns={serverColumns} items={data.servers} keyOf={({ id }) => String(id)} />
        </div>
      ) : null}
    </Section>
  );
}

const tones = { ready: 'good', draining: 'warn', unavailable: 'bad' } as const;
const serverColumns = [
  {
    title: 'Name',
    cell: ({ name, hosts }: FleetServer) => (
      <span>
        {name} <span className="faint mono">{hosts.join(', ')}</span>
      </span>
    ),
  },
  { title: 'State', cell: ({ state }: FleetServer) => <Badge tone={tones[state]}>{state}</Badge> },
  { title: 'Projects', align: 'end' as const, cell: ({ projects }: FleetServer) => projects },
  {
    title: 'Used',
    align: 'end' as const,
    cell: ({ used_mb, capacity_mb }: FleetServer) =>
      `${formatMb(used_mb)}${capacity_mb ? ` of ${formatMb(capacity_mb)}` : ''}`,
  },
];

function Jobs() {
  const { data: jobs, error } = useQuery({ ...jobsQuery(), refetchInterval: 3_000 });
  return (
    <Section title="Jobs">
      {error ? <ErrorNote error={error} /> : null}
      {jobs && jobs.length > 0 ? (
        <div className="panel">
          <List label="Jobs" columns={jobColumns} items={jobs.slice(0, 20)} keyOf={({ id }) => id} />
        </div>
      ) : jobs ? (
        <p className="faint">No job is running, and none ran lately.</p>
      ) : null}
    </Section>
  );
}

const jobColumns = [
  { title: 'Job', cell: ({ kind, project }: Job) => `${kind}${project ? ` of ${project}` : ''}` },
  { title: 'Status', cell: ({ status }: Job) => <Badge tone={jobTones[status]}>{status}</Badge> },
  {
    title: 'Progress',
    cell: ({ progress, error, kind }: Job) =>
      error ? (
        error.message
      ) : (
        <span className="bar-cell">
          <Bar value={progress} max={1} label={`Progress of ${kind}`} kind="progress" />
        </span>
      ),
  },
  {
    title: 'Started',
    align: 'end' as const,
    cell: ({ started_at }: Job) => <span className="faint">{formatAge(started_at)}</span>,
  },
];
