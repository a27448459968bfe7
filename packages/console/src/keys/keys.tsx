// The keys of a project: which there are, a new one with chosen scopes, rotation of the project key.
import type { Key, RotatedKeyResponse } from '@rowhouse/api';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { keysQuery } from '../api/queries.ts';
import { api, path } from '../api/request.ts';
import { useShownOnce } from '../session/shown-once.tsx';
import { Badge } from '../ui/badge.tsx';
import { Button } from '../ui/button.tsx';
import { Confirm } from '../ui/confirm.tsx';
import { ErrorState } from '../ui/error-state.tsx';
import { formatAge, formatTime } from '../ui/format.ts';
import { Icon } from '../ui/icons.tsx';
import { List } from '../ui/list.tsx';
import { Page } from '../ui/page.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { toast } from '../ui/toast.tsx';
import { IssueKey } from './issue-key.tsx';
import { ShownKey } from './shown-key.tsx';

type Open = 'issue' | 'rotate' | Key | null;

export function Keys({ slug }: { slug: string }) {
  const client = useQueryClient();
  const { data: keys, error, refetch } = useQuery(keysQuery(slug));
  const [open, setOpen] = useState<Open>(null);
  const reload = () => client.invalidateQueries({ queryKey: ['project', slug, 'keys'] });
  const shownOnce = useShownOnce(() => setOpen(null));
  const { once } = useIdempotencyKey();
  const rotate = useMutation({
    mutationFn: () =>
      shownOnce(
        () =>
          once((options) => api.post<RotatedKeyResponse>(path`projects/${slug}/keys/rotate`, {}, options)),
        ({ api_key: apiKey }, close) => <ShownKey apiKey={apiKey} onClose={close} />,
      ),
    onSuccess: reload,
  });
  const revoke = useMutation({
    mutationFn: (key: Key) => api.delete(path`projects/${slug}/keys/${key.id}`),
    onSuccess: () => {
      setOpen(null);
      toast.done('The key is revoked.');
      return reload();
    },
  });
  return (
    <Page
      title="Keys"
      about="Every program gets a key of its own, with only the scopes that it needs."
      actions={
        <>
          <Button onClick={() => setOpen('rotate')}>Rotate the project key</Button>
          <Button kind="primary" icon={<Icon name="plus" />} onClick={() => setOpen('issue')}>
            New key
          </Button>
        </>
      }
    >
      {error ? <ErrorState error={error} onRetry={() => void refetch()} /> : null}
      {keys ? (
        <div className="panel">
          <List label="Keys" columns={columns(setOpen)} items={keys} keyOf={({ id }) => id} />
        </div>
      ) : error ? null : (
        <Skeleton />
      )}
      {open === 'issue' ? <IssueKey slug={slug} onIssued={reload} onClose={() => setOpen(null)} /> : null}
      {open === 'rotate' ? (
        <Confirm
          title="Rotate the project key"
          action="Rotate"
          isBusy={rotate.isPending}
          error={rotate.error}
          onConfirm={() => rotate.mutate()}
          onClose={() => setOpen(null)}
        >
          The project gets a new key. The old key, and the tokens that it signed, stay valid for 24 hours.
        </Confirm>
      ) : null}
      {open && typeof open === 'object' ? (
        <Confirm
          title={`Revoke ${open.name}`}
          action="Revoke"
          isBusy={revoke.isPending}
          error={revoke.error}
          onConfirm={() => revoke.mutate(open)}
          onClose={() => setOpen(null)}
        >
          Programs that use this key get 401 within a second. This cannot be undone.
        </Confirm>
      ) : null}
    </Page>
  );
}

const tones = { active: 'good', rotated: 'warn', expired: 'plain', revoked: 'bad' } as const;

const columns = (onRevoke: (key: Key) => void) => [
  {
    title: 'Name',
    cell: ({ name, start, issued_by }: Key) => (
      <span className="two-lines">
        <span>{name}</span>
        <span className="faint mono">{start}…</span>
        {issued_by ? <span className="faint">by {issued_by.email}</span> : null}
      </span>
    ),
  },
  { title: 'Kind', cell: ({ kind }: Key) => kind },
  {
    title: 'Scopes',
    cell: ({ scopes, tables }: Key) => (
      <span className="row row-wrap">
        {scopes.map((scope) => (
          <Badge key={scope}>{scope}</Badge>
        ))}
        {tables ? <span className="faint">on {tables.join(', ')}</span> : null}
      </span>
    ),
  },
  {
    title: 'Status',
    cell: ({ status, expires_at }: Key) => (
      <span className="row row-wrap">
        <Badge tone={tones[status]}>{status}</Badge>
        {expires_at && status !== 'revoked' ? (
          <span className="faint">until {formatTime(expires_at)}</span>
        ) : null}
      </span>
    ),
  },
  {
    title: 'Last used',
    cell: ({ last_used_at }: Key) => (
      <span className="faint">{last_used_at ? formatAge(last_used_at) : 'never'}</span>
    ),
  },
  {
    title: 'Revoke',
    isTitleHidden: true,
    align: 'end' as const,
    cell: (key: Key) =>
      key.kind !== 'project' && key.status === 'active' ? (
        <Button size="small" onClick={() => onRevoke(key)}>
          Revoke
        </Button>
      ) : null,
  },
];
