// The sessions of one end user. They can be ended one by one or all at once.
import type { SignedOutResponse, User, UserSession, UserSessionsResponse } from '@rowhouse/api';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { api, path } from '../api/request.ts';
import { Badge } from '../ui/badge.tsx';
import { Button } from '../ui/button.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { formatAge, formatTime, plural } from '../ui/format.ts';
import { List } from '../ui/list.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { toast } from '../ui/toast.tsx';

type Props = { slug: string; user: User; onClose: () => void };

export function UserSessions({ slug, user, onClose }: Props) {
  const client = useQueryClient();
  const queryKey = ['project', slug, 'users', user.id, 'sessions'];
  const place = path`projects/${slug}/auth/users/${user.id}/sessions`;
  const { data, error } = useQuery({
    queryKey,
    queryFn: ({ signal }) => api.get<UserSessionsResponse>(place, undefined, signal),
  });
  const reload = () => client.invalidateQueries({ queryKey });
  const end = useMutation({
    mutationFn: (id: string | null) =>
      api.delete<SignedOutResponse>(id === null ? place : `${place}/${encodeURIComponent(id)}`),
    onSuccess: ({ ended }) => toast.done(`${plural(ended, 'session')} ended.`),
    onError: toast.failed,
    // One that has ended meanwhile is gone from the list, too.
    onSettled: reload,
  });
  return (
    <Dialog title={`Sessions of ${user.email}`} kind="wide" onClose={onClose}>
      <div className="stack">
        <p className="muted">
          A session ends after 30 days without a refresh. If you end it, its tokens stop working at once.
        </p>
        {error ? <ErrorNote error={error} /> : null}
        {!data && !error ? <Skeleton lines={3} /> : null}
        {data?.sessions.length === 0 ? <p className="faint">The user is not signed in anywhere.</p> : null}
        {data && data.sessions.length > 0 ? (
          <List
            label="Sessions"
            columns={columns(({ id }) => end.mutate(id), end.isPending)}
            items={data.sessions}
            keyOf={({ id }) => id}
          />
        ) : null}
        <DialogActions>
          <Button onClick={onClose}>Done</Button>
          <Button
            kind="danger"
            isBusy={end.isPending && end.variables === null}
            disabled={!data || data.sessions.length === 0}
            onClick={() => end.mutate(null)}
          >
            End all sessions
          </Button>
        </DialogActions>
      </div>
    </Dialog>
  );
}

const columns = (onEnd: (session: UserSession) => void, isBusy: boolean) => [
  {
    title: 'Signed in',
    cell: ({ id, created_at, is_acting }: UserSession) => (
      <span className="two-lines">
        <span className="row row-wrap" title={formatTime(created_at)}>
          {formatAge(created_at)}
          {is_acting ? <Badge tone="warn">a key acts as the user</Badge> : null}
        </span>
        <span className="faint mono">{id}</span>
      </span>
    ),
  },
  {
    title: 'Last refresh',
    cell: ({ refreshed_at }: UserSession) => <span className="faint">{formatAge(refreshed_at)}</span>,
  },
  {
    title: 'Ends',
    cell: ({ expires_at }: UserSession) => (
      <span className="faint" title={formatTime(expires_at)}>
        {formatAge(expires_at)}
      </span>
    ),
  },
  {
    title: 'End',
    isTitleHidden: true,
    align: 'end' as const,
    cell: (session: UserSession) => (
      <Button size="small" disabled={isBusy} onClick={() => onEnd(session)}>
        End
      </Button>
    ),
  },
];
