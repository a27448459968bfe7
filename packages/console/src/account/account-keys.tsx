// The keys of the account, each with a role: which there are, a new one, the end of one.
import type { AccountKey, AccountKeysResponse } from '@rowhouse/api';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, path } from '../api/request.ts';
import { rolesBelow } from '../session/may.ts';
import { useSession } from '../session/use-session.ts';
import { Badge } from '../ui/badge.tsx';
import { Button } from '../ui/button.tsx';
import { Confirm } from '../ui/confirm.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { formatAge, formatTime } from '../ui/format.ts';
import { List } from '../ui/list.tsx';
import { Section } from '../ui/page.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { toast } from '../ui/toast.tsx';
import { IssueAccountKey } from './issue-account-key.tsx';

const queryKey = ['account-keys'];

export function AccountKeys() {
  const client = useQueryClient();
  const own = rolesBelow(useSession());
  const { data, error } = useQuery({
    queryKey,
    queryFn: ({ signal }) => api.get<AccountKeysResponse>('account/keys', undefined, signal),
  });
  const [isIssuing, setIssuing] = useState(false);
  const [asked, setAsked] = useState<AccountKey | null>(null);
  const reload = () => client.invalidateQueries({ queryKey });
  const revoke = useMutation({
    mutationFn: ({ id }: AccountKey) => api.delete(path`account/keys/${id}`),
    onSuccess: () => {
      setAsked(null);
      toast.done('The key is revoked.');
      return reload();
    },
  });
  const revokeColumn = {
    title: 'Revoke',
    isTitleHidden: true,
    align: 'end' as const,
    cell: (key: AccountKey) =>
      key.status === 'active' && own.includes(key.role) ? (
        <Button size="small" aria-label={`Revoke ${key.name}`} onClick={() => setAsked(key)}>
          Revoke
        </Button>
      ) : null,
  };
  return (
    <Section
      title="Account keys"
      about="For programs that work with all projects of the account."
      actions={<Button onClick={() => setIssuing(true)}>New account key</Button>}
    >
      {error ? <ErrorNote error={error} /> : null}
      {data ? (
        <div className="panel">
          <List
            label="Account keys"
            columns={[...columns, revokeColumn]}
            items={data.keys}
            keyOf={({ id }) => id}
          />
        </div>
      ) : error ? null : (
        <Skeleton lines={3} />
      )}
      {isIssuing ? <IssueAccountKey onIssued={reload} onClose={() => setIssuing(false)} /> : null}
      {asked ? (
        <Confirm
          title={`Revoke ${asked.name}`}
          action="Revoke"
          isBusy={revoke.isPending}
          error={revoke.error}
          onConfirm={() => revoke.mutate(asked)}
          onClose={() => setAsked(null)}
        >
          Programs and sessions that use this key are refused within a second. This cannot be undone.
        </Confirm>
      ) : null}
    </Section>
  );
}

const tones = { active: 'good', expired: 'plain', revoked: 'bad' } as const;

const columns = [
  {
    title: 'Name',
    cell: ({ name, start, issued_by }: AccountKey) => (
      <span className="two-lines">
        <span>{name}</span>
        <span className="faint mono">{start}…</span>
        {issued_by ? <span className="faint">by {issued_by.email}</span> : null}
      </span>
    ),
  },
  { title: 'Role', cell: ({ role }: AccountKey) => <Badge>{role}</Badge> },
  {
    title: 'Status',
    cell: ({ status, expires_at }: AccountKey) => (
      <span className="row row-wrap">
        <Badge tone={tones[status]}>{status}</Badge>
        {expires_at && status === 'active' ? (
          <span className="faint">until {formatTime(expires_at)}</span>
        ) : null}
      </span>
    ),
  },
  {
    title: 'Last used',
    cell: ({ last_used_at }: AccountKey) => (
      <span className="faint">{last_used_at ? formatAge(last_used_at) : 'never'}</span>
    ),
  },
];
