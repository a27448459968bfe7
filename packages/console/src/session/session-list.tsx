// All sessions of the same owner: which one this is, and the end of one or of all others.
import type { ConsoleSessionsResponse, ListedConsoleSession } from '@rowhouse/api';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { sessionRequest } from '../api/request.ts';
import { Badge } from '../ui/badge.tsx';
import { Button } from '../ui/button.tsx';
import { ErrorState } from '../ui/error-state.tsx';
import { formatAge, formatTime } from '../ui/format.ts';
import { List } from '../ui/list.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { toast } from '../ui/toast.tsx';
import { signOut } from './session.ts';

const queryKey = ['console-sessions'];

export function SessionList() {
  const client = useQueryClient();
  const { data, error, refetch } = useQuery({
    queryKey,
    queryFn: () => sessionRequest<ConsoleSessionsResponse>('GET', 'sessions'),
  });
  const reload = () => client.invalidateQueries({ queryKey });
  const end = useMutation({
    mutationFn: ({ id, is_current }: ListedConsoleSession) =>
      is_current ? signOut() : sessionRequest('DELETE', `sessions/${encodeURIComponent(id)}`),
    onSuccess: reload,
    onError: toast.failed,
  });
  const endOthers = useMutation({
    mutationFn: () => sessionRequest('DELETE', 'sessions'),
    onSuccess: () => {
      toast.done('All other sessions have ended.');
      return reload();
    },
    onError: toast.failed,
  });
  return (
    <>
      {error ? <ErrorState error={error} onRetry={() => void refetch()} /> : null}
      {!data && !error ? <Skeleton /> : null}
      {data ? (
        <div className="panel">
          <List label="Sessions" columns={columns(end.mutate)} items={data.sessions} keyOf={({ id }) => id} />
          {data.sessions.length > 1 ? (
            <div className="show-more">
              <Button size="small" isBusy={endOthers.isPending} onClick={() => endOthers.mutate()}>
                End all others
              </Button>
            </div>
          ) : null}
        </div>
      ) : null}
    </>
  );
}

const columns = (onEnd: (session: ListedConsoleSession) => void) => [
  {
    title: 'Browser',
    cell: ({ user_agent, is_current }: ListedConsoleSession) => (
      <span className="two-lines">
        <span className="row row-wrap">
          {browserOf(user_agent)}
          {is_current ? <Badge tone="good">this one</Badge> : null}
        </span>
        <span className="faint">{user_agent}</span>
      </span>
    ),
  },
  {
    title: 'Address',
    cell: ({ address }: ListedConsoleSession) => <span className="mono nowrap">{address}</span>,
  },
  {
    title: 'Last used',
    cell: ({ last_seen_at }: ListedConsoleSession) => (
      <span className="faint nowrap">{formatAge(last_seen_at)}</span>
    ),
  },
  {
    title: 'Signed in',
    cell: ({ created_at, expires_at }: ListedConsoleSession) => (
      <span className="faint nowrap" title={`Ends at the latest ${formatTime(expires_at)}`}>
        {formatAge(created_at)}
      </span>
    ),
  },
  {
    title: 'End',
    isTitleHidden: true,
    align: 'end' as const,
    cell: (session: ListedConsoleSession) => (
      <Button size="small" onClick={() => onEnd(session)}>
        {session.is_current ? 'Sign out' : 'End'}
      </Button>
    ),
  },
];

/** Only to recognise it: every browser claims to be several. */
function browserOf(userAgent: string | null): string {
  const known = ['Firefox', 'Edg', 'OPR', 'Chrome', 'Safari'].find((name) => userAgent?.includes(`${name}/`));
  return { Edg: 'Edge', OPR: 'Opera' }[known ?? ''] ?? known ?? 'Unknown browser';
}
