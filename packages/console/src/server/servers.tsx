// PostgreSQL servers with their disk and their connections.
import type { ListedServer } from '@rowhouse/api';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { serversQuery } from '../api/queries.ts';
import { Badge } from '../ui/badge.tsx';
import { Bar } from '../ui/bar.tsx';
import { Button } from '../ui/button.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { formatMb, formatNumber } from '../ui/format.ts';
import { List } from '../ui/list.tsx';
import { Section } from '../ui/page.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { AddServer } from './add-server.tsx';
import { ServerActions } from './server-actions.tsx';

const pollMs = 10_000;

export function Servers() {
  const { data: servers, error } = useQuery({ ...serversQuery(), refetchInterval: pollMs });
  const [isAdding, setAdding] = useState(false);
  const isLow = servers?.some(({ disk }) => disk !== null && disk.free_mb < disk.reserve_mb);
  return (
    <Section
      title="PostgreSQL servers"
      actions={<Button onClick={() => setAdding(true)}>Add a server</Button>}
    >
      {error ? <ErrorNote error={error} /> : null}
      {isLow ? (
        <p className="note note-bad">
          The disk has less free space than its reserve. Projects cannot grow until there is more.
        </p>
      ) : null}
      {servers ? (
        <div className="panel">
          <List
            label="Servers"
            columns={[...columns, actionsColumn(servers[0]?.id)]}
            items={servers}
            keyOf={({ id }) => String(id)}
          />
        </div>
      ) : error ? null : (
        <Skeleton lines={2} />
      )}
      {isAdding ? <AddServer onClose={() => setAdding(false)} /> : null}
    </Section>
  );
}

const tones = { ready: 'good', draining: 'warn', unavailable: 'bad', detached: 'bad' } as const;
const columns = [
  {
    title: 'Name',
    cell: ({ name, hosts }: ListedServer) => (
      <span className="two-lines">
        <span>{name}</span>
        <span className="faint mono">{hosts.join(', ')}</span>
      </span>
    ),
  },
  { title: 'State', cell: ({ state }: ListedServer) => <Badge tone={tones[state]}>{state}</Badge> },
  { title: 'Projects', align: 'end' as const, cell: ({ projects }: ListedServer) => formatNumber(projects) },
  {
    title: 'Used by projects',
    align: 'end' as const,
    cell: ({ used_mb, capacity_mb }: ListedServer) =>
      `${formatMb(used_mb)}${capacity_mb ? ` of ${formatMb(capacity_mb)}` : ''}`,
  },
  {
    title: 'Connections',
    cell: ({ name, connections }: ListedServer) =>
      connections ? (
        <span className="meter-cell">
          <span>
            {formatNumber(connections.used)}{' '}
            <span className="faint">of {formatNumber(connections.limit)}</span>
          </span>
          <Bar value={connections.used} max={connections.limit} label={`Connections of ${name}`} />
        </span>
      ) : (
        <span className="faint">unknown</span>
      ),
  },
  {
    title: 'Disk',
    cell: ({ name, disk }: ListedServer) =>
      disk ? (
        <span className="meter-cell" title={`Reserve: ${formatMb(disk.reserve_mb)}`}>
          <span>
            {formatMb(disk.free_mb)} <span className="faint">free of {formatMb(disk.total_mb)}</span>
          </span>
          <Bar
            value={disk.total_mb - disk.free_mb}
            max={disk.total_mb}
            label={`Disk of ${name} in megabytes`}
          />
        </span>
      ) : (
        <span className="faint">on another machine</span>
      ),
  },
];

const actionsColumn = (firstId: number | undefined) => ({
  title: 'Actions',
  isTitleHidden: true,
  align: 'end' as const,
  cell: (server: ListedServer) => <ServerActions server={server} isFirst={server.id === firstId} />,
});
