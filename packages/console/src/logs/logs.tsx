// What went wrong lately in a project, and what was slow.
import type { LoggedRequest, LogsResponse } from '@rowhouse/api';
import { useQuery } from '@tanstack/react-query';
import { useSearchParams } from 'wouter';
import { logsQuery } from '../api/queries.ts';
import { Badge } from '../ui/badge.tsx';
import { IconButton } from '../ui/button.tsx';
import { EmptyState } from '../ui/empty-state.tsx';
import { ErrorState } from '../ui/error-state.tsx';
import { formatAge, formatDuration, formatTime } from '../ui/format.ts';
import { Icon } from '../ui/icons.tsx';
import { List } from '../ui/list.tsx';
import { Page, Section } from '../ui/page.tsx';
import { RequestChart } from '../ui/request-chart.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { Tabs } from '../ui/tabs.tsx';
import './logs.css';

const tabs = [
  { key: 'failures', label: 'Failures' },
  { key: 'slow', label: 'Slow statements' },
] as const;
const refreshMs = 10_000;

export function Logs({ slug }: { slug: string }) {
  const { data, error, refetch } = useQuery({ ...logsQuery(slug), refetchInterval: refreshMs });
  const [params, setParams] = useSearchParams();
  const tab = params.has('slow') ? 'slow' : 'failures';
  return (
    <Page
      title="Logs"
      about="Recent requests of this project that failed or were slow."
      actions={<IconButton label="Refresh" icon={<Icon name="refresh" />} onClick={() => void refetch()} />}
    >
      {error ? <ErrorState error={error} onRetry={() => void refetch()} /> : null}
      {!data && !error ? <Skeleton lines={8} /> : null}
      {data ? (
        <>
          <Section
            title="Requests of the last hour"
            about={`Of the process that answers. It counts since ${formatTime(data.since)}.`}
          >
            <div className="panel panel-pad">
              <RequestChart minutes={data.requests} />
            </div>
          </Section>
          <div className="section">
            <Tabs
              label="Kinds of entries"
              tabs={tabs}
              current={tab}
              onChange={(key) => setParams(key === 'slow' ? { slow: '' } : {})}
            >
              <Entries key={tab} tab={tab} logs={data} />
            </Tabs>
          </div>
        </>
      ) : null}
    </Page>
  );
}

function Entries({ tab, logs }: { tab: 'failures' | 'slow'; logs: LogsResponse }) {
  const entries = logs[tab];
  if (entries.length === 0) {
    return tab === 'slow' ? (
      <EmptyState icon="check" title="No slow statements">
        Statements that take longer than {formatDuration(logs.slow_ms)} appear here.
      </EmptyState>
    ) : (
      <EmptyState icon="check" title="No failures">
        Requests that get an error appear here, with its code and the statement.
      </EmptyState>
    );
  }
  return (
    <div className="panel">
      <List
        label={tab === 'slow' ? 'Slow statements' : 'Failures'}
        columns={columns}
        items={entries}
        keyOf={({ request_id }) => request_id}
      />
    </div>
  );
}

const columns = [
  {
    title: 'When',
    cell: ({ at, request_id }: LoggedRequest) => (
      <span className="two-lines log-when">
        <time dateTime={at} title={formatTime(at)}>
          {formatAge(at)}
        </time>
        <span className="faint mono" title="The id of the request">
          {request_id}
        </span>
      </span>
    ),
  },
  {
    title: 'Request',
    cell: (entry: LoggedRequest) => (
      <span className="log-request">
        <span className="mono log-path">
          {entry.method} {entry.path}
        </span>
        {entry.code || entry.message ? (
          <span>
            {entry.code ? <b className="mono">{entry.code}</b> : null} {entry.message}
          </span>
        ) : null}
        {entry.statement ? <pre className="log-statement">{entry.statement}</pre> : null}
      </span>
    ),
  },
  {
    title: 'Status',
    cell: ({ status, sql_state }: LoggedRequest) => (
      <span className="row row-wrap">
        <Badge tone={status >= 500 ? 'bad' : status >= 400 ? 'warn' : 'good'}>{status}</Badge>
        {sql_state ? <Badge>{sql_state}</Badge> : null}
      </span>
    ),
  },
  {
    title: 'Time',
    align: 'end' as const,
    cell: ({ duration_ms }: LoggedRequest) => formatDuration(duration_ms),
  },
];
