// The audit log of the account: who did what, filtered by the address of the page, page by page, and as a file.
import type { AuditEntry, AuditResponse } from '@rowhouse/api';
import { useInfiniteQuery, useMutation } from '@tanstack/react-query';
import { useSearchParams } from 'wouter';
import { download, fileNameOf } from '../api/download.ts';
import { api } from '../api/request.ts';
import { useSession } from '../session/use-session.ts';
import { Badge } from '../ui/badge.tsx';
import { Button } from '../ui/button.tsx';
import { EmptyState } from '../ui/empty-state.tsx';
import { ErrorState } from '../ui/error-state.tsx';
import { formatTime } from '../ui/format.ts';
import { Icon } from '../ui/icons.tsx';
import { List } from '../ui/list.tsx';
import { Page } from '../ui/page.tsx';
import { ShowMore } from '../ui/show-more.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { toast } from '../ui/toast.tsx';
import { detailsText, readFilters, toQuery } from './audit-filters.ts';
import { FilterForm } from './filter-form.tsx';
import './audit.css';

const pageEntries = 50;

export function Audit() {
  const { account } = useSession();
  const [params, setParams] = useSearchParams();
  const filters = readFilters(params);
  const query = toQuery(filters);
  const found = useInfiniteQuery({
    queryKey: ['audit', query],
    queryFn: ({ signal, pageParam }) =>
      api.get<AuditResponse>(
        'audit',
        { ...query, limit: pageEntries, cursor: pageParam ?? undefined },
        signal,
      ),
    initialPageParam: null as string | null,
    getNextPageParam: ({ cursor }) => cursor,
  });
  const save = useMutation({
    mutationFn: () =>
      download({
        method: 'GET',
        path: 'audit',
        query,
        accept: 'application/x-ndjson',
        fileName: `${fileNameOf(account.name, 'audit')}.jsonl`,
      }),
    onError: toast.failed,
  });
  const entries = found.data?.pages.flatMap((page) => page.entries);
  return (
    <Page
      title="Audit log"
      about={`Who did what in ${account.name}, from where, and how it ended.`}
      actions={
        <Button icon={<Icon name="download" />} isBusy={save.isPending} onClick={() => save.mutate()}>
          Export JSON lines
        </Button>
      }
      isWide
    >
      <FilterForm key={params.toString()} filters={filters} onChange={(next) => setParams({ ...next })} />
      {found.error ? <ErrorState error={found.error} onRetry={() => void found.refetch()} /> : null}
      {!entries && !found.error ? <Skeleton lines={8} /> : null}
      {entries?.length === 0 ? (
        <EmptyState icon="logs" title="No entries">
          {Object.keys(filters).length > 0
            ? 'Nothing matches these filters.'
            : 'Changes of projects, keys and members, and sign-ins appear here.'}
        </EmptyState>
      ) : null}
      {entries && entries.length > 0 ? (
        <div className="panel">
          <List label="Entries" columns={columns} items={entries} keyOf={({ id }) => id} />
          <ShowMore pages={found} />
        </div>
      ) : null}
    </Page>
  );
}

/** The id of a key says that it is one. */
function nameOf({ kind, id, name }: AuditEntry['actor']): string {
  if (name !== null || id === null) return name ?? kind;
  return kind === 'key' ? id : `${kind} ${id}`;
}

const tones = { done: 'good', refused: 'warn', failed: 'bad' } as const;

const columns = [
  {
    title: 'When',
    cell: ({ at }: AuditEntry) => (
      <time className="nowrap" dateTime={at} title={at}>
        {formatTime(at)}
      </time>
    ),
  },
  {
    title: 'Who',
    cell: ({ actor, address }: AuditEntry) => (
      <span className="two-lines">
        <span>{nameOf(actor)}</span>
        <span className="faint mono">{address}</span>
      </span>
    ),
  },
  {
    title: 'Action',
    cell: ({ action, target, details }: AuditEntry) => (
      <span className="two-lines audit-action">
        <b className="mono">{action}</b>
        {target ? <span className="faint mono">{target}</span> : null}
        {details ? <span className="muted">{detailsText(details)}</span> : null}
      </span>
    ),
  },
  {
    title: 'Project',
    cell: ({ project }: AuditEntry) => (project ? <span className="mono">{project}</span> : null),
  },
  {
    title: 'Outcome',
    cell: ({ outcome, error }: AuditEntry) => (
      <span className="row row-wrap">
        <Badge tone={tones[outcome]}>{outcome}</Badge>
        {error ? <span className="faint mono">{error}</span> : null}
      </span>
    ),
  },
];
