// How large a project is, by table and over time, and compaction with its progress.
import type { Compaction, LastCompactionResponse, TableUsage } from '@rowhouse/api';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { ApiError } from '../api/error.ts';
import { logsQuery, usageQuery } from '../api/queries.ts';
import { api, path } from '../api/request.ts';
import { mayWrite } from '../session/may.ts';
import { useSession } from '../session/use-session.ts';
import { Badge } from '../ui/badge.tsx';
import { Bar } from '../ui/bar.tsx';
import { Button } from '../ui/button.tsx';
import { EmptyState } from '../ui/empty-state.tsx';
import { ErrorState } from '../ui/error-state.tsx';
import { formatAge, formatBytes, formatMb, formatNumber, plural } from '../ui/format.ts';
import { List } from '../ui/list.tsx';
import { Page, Section } from '../ui/page.tsx';
import { RequestChart } from '../ui/request-chart.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { toast } from '../ui/toast.tsx';
import { SizeChart } from './size-chart.tsx';
import './usage.css';

export function Usage({ slug }: { slug: string }) {
  const isWritable = mayWrite(useSession());
  const { data, error, refetch } = useQuery(usageQuery(slug));
  if (error) return <ErrorState isPage error={error} onRetry={() => void refetch()} />;
  if (!data) return <Skeleton lines={8} />;
  const { usage, history } = data;
  const largest = Math.max(1, ...usage.tables.map((table) => table.total_bytes));
  return (
    <Page title="Usage" about={`Measured ${formatAge(usage.measured_at)}.`}>
      {usage.failed_restore_drill_at ? (
        <p className="note note-bad">
          A restore drill failed {formatAge(usage.failed_restore_drill_at)}. The backups of this project may
          not be restorable. Tell the operator.
        </p>
      ) : null}
      <div className="panel panel-pad usage-head">
        <div className="usage-size">
          <span className="usage-number">{formatMb(usage.size_mb)}</span>
          <span className="muted">of {formatMb(usage.limit_mb)}</span>
          <span className="grow" />
          {usage.status === 'full' ? (
            <Badge tone="bad">full</Badge>
          ) : (
            <span className="muted">{formatMb(usage.headroom_mb)} free</span>
          )}
        </div>
        <Bar value={usage.size_mb} max={usage.limit_mb} label="Size in megabytes" />
      </div>
      <Section title="Size over time">
        <div className="panel panel-pad">
          <SizeChart history={history} limitMb={usage.limit_mb} />
        </div>
      </Section>
      <Section
        title="Tables"
        about={
          usage.tables_truncated
            ? `The largest of ${plural(usage.table_count, 'table')}.`
            : plural(usage.table_count, 'table')
        }
      >
        {usage.tables.length > 0 ? (
          <div className="panel">
            <List
              label="Tables by size"
              columns={columns(largest)}
              items={usage.tables}
              keyOf={({ schema, name }) => `${schema}.${name}`}
            />
          </div>
        ) : (
          <EmptyState icon="usage" title="No tables yet" />
        )}
      </Section>
      {isWritable ? (
        <>
          <Requests slug={slug} />
          <Compact slug={slug} />
        </>
      ) : null}
    </Page>
  );
}

const columns = (largest: number) => [
  {
    title: 'Table',
    cell: ({ schema, name }: TableUsage) => (
      <span className="mono">{schema === 'public' ? name : `${schema}.${name}`}</span>
    ),
  },
  {
    title: 'Share',
    cell: ({ total_bytes, name }: TableUsage) => (
      <span className="bar-cell">
        <Bar value={total_bytes} max={largest} label={`Size of ${name} in bytes`} kind="share" />
      </span>
    ),
  },
  { title: 'Total', align: 'end' as const, cell: ({ total_bytes }: TableUsage) => formatBytes(total_bytes) },
  { title: 'Rows', align: 'end' as const, cell: ({ heap_bytes }: TableUsage) => formatBytes(heap_bytes) },
  {
    title: 'Indexes',
    align: 'end' as const,
    cell: ({ index_bytes }: TableUsage) => formatBytes(index_bytes),
  },
  {
    title: 'Long values',
    align: 'end' as const,
    cell: ({ toast_bytes }: TableUsage) => formatBytes(toast_bytes),
  },
  {
    title: 'Row count',
    align: 'end' as const,
    cell: ({ row_estimate }: TableUsage) => (row_estimate === null ? '–' : `~${formatNumber(row_estimate)}`),
  },
];

function Requests({ slug }: { slug: string }) {
  const { data, error, refetch } = useQuery(logsQuery(slug));
  // A key for some tables may not see the requests of other keys.
  if (error instanceof ApiError && error.status === 403) return null;
  return (
    <Section title="Requests" about="Requests of the last hour, in the process that answers.">
      <div className="panel panel-pad">
        {error ? <ErrorState error={error} onRetry={() => void refetch()} /> : null}
        {data ? <RequestChart minutes={data.requests} /> : null}
        {data || error ? null : <Skeleton lines={3} />}
      </div>
    </Section>
  );
}

const pollMs = 700;

function Compact({ slug }: { slug: string }) {
  const client = useQueryClient();
  const key = ['project', slug, 'compact'];
  const { data, error } = useQuery({
    queryKey: key,
    queryFn: ({ signal }) =>
      api.get<LastCompactionResponse>(path`projects/${slug}/compact`, undefined, signal),
    refetchInterval: ({ state }) => (state.data?.compaction?.status === 'running' ? pollMs : false),
  });
  const start = useMutation({
    mutationFn: () => api.post<LastCompactionResponse>(path`projects/${slug}/compact`),
    onSuccess: (answer) => {
      client.setQueryData(key, answer);
      return client.invalidateQueries({ queryKey: ['project', slug] });
    },
    onError: toast.failed,
  });
  const last = data?.compaction ?? null;
  const isRunning = last?.status === 'running';
  return (
    <Section
      title="Compact"
      about="Rewrites tables that hold much empty space, and gives it back."
      actions={
        <Button isBusy={start.isPending || isRunning} onClick={() => start.mutate()}>
          Compact
        </Button>
      }
    >
      {error ? (
        <ErrorState error={error} />
      ) : last ? (
        <CompactionReport last={last} />
      ) : (
        <p className="faint">It never ran in this project.</p>
      )}
    </Section>
  );
}

function CompactionReport({ last }: { last: Compaction }) {
  return (
    <div className="panel panel-pad stack-s" role="status">
      <div className="row">
        <Badge tone={last.status === 'done' ? 'good' : last.status === 'running' ? 'info' : 'warn'}>
          {last.status}
        </Badge>
        <span className="muted">
          {last.tables_done} of {plural(last.tables_total, 'table')}, {formatMb(last.freed_mb)} freed
        </span>
        <span className="grow" />
        <span className="faint">{formatAge(last.started_at)}</span>
      </div>
      {last.status === 'running' ? (
        <>
          <Bar value={last.tables_done} max={last.tables_total} label="Compacted tables" kind="progress" />
          {last.current ? <span className="faint mono">{last.current}</span> : null}
        </>
      ) : null}
      {last.error ? <p className="note note-bad">{last.error}</p> : null}
      {last.skipped.map(({ table, reason }) => (
        <p key={table} className="faint">
          Skipped <span className="mono">{table}</span>: {reason}
        </p>
      ))}
    </div>
  );
}
