// The members of the account, what they may do, and who is invited.
import type { Member, MembersResponse } from '@rowhouse/api';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../api/request.ts';
import { mayManageAccount } from '../session/may.ts';
import { useSession } from '../session/use-session.ts';
import { Badge } from '../ui/badge.tsx';
import { Button } from '../ui/button.tsx';
import { EmptyState } from '../ui/empty-state.tsx';
import { ErrorState } from '../ui/error-state.tsx';
import { formatAge } from '../ui/format.ts';
import { Icon } from '../ui/icons.tsx';
import { List } from '../ui/list.tsx';
import { Page } from '../ui/page.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { Invitations } from './invitations.tsx';
import { InviteMember } from './invite-member.tsx';
import { MemberActions } from './member-actions.tsx';
import { projectsColumn } from './projects-column.tsx';

const queryKey = ['members'];

export function Members() {
  const client = useQueryClient();
  const session = useSession();
  const isManager = mayManageAccount(session);
  const { data, error, refetch } = useQuery({
    queryKey,
    queryFn: ({ signal }) => api.get<MembersResponse>('account/members', undefined, signal),
  });
  const [isInviting, setInviting] = useState(false);
  const reload = () => client.invalidateQueries({ queryKey });
  const invite = () => setInviting(true);
  return (
    <Page
      title="Members"
      about={`The people of ${session.account.name}, and what they may do.`}
      actions={
        isManager ? (
          <Button kind="primary" icon={<Icon name="plus" />} onClick={invite}>
            Invite
          </Button>
        ) : null
      }
    >
      {error ? <ErrorState error={error} onRetry={() => void refetch()} /> : null}
      {!data && !error ? <Skeleton /> : null}
      {data?.members.length === 0 ? (
        <EmptyState icon="users" title="No members yet">
          {isManager
            ? 'Invite yourself first, as owner: then you sign in with your email address instead of a key.'
            : 'Whoever holds an account key with the role admin or owner can invite people.'}
        </EmptyState>
      ) : null}
      {data && data.members.length > 0 ? (
        <div className="panel">
          <List
            label="Members"
            columns={[...columns(session.person?.id), actionsColumn(data.members, reload)]}
            items={data.members}
            keyOf={({ id }) => id}
          />
        </div>
      ) : null}
      {data && data.invitations.length > 0 ? (
        <Invitations invitations={data.invitations} onChanged={reload} />
      ) : null}
      {isInviting ? <InviteMember onInvited={reload} onClose={() => setInviting(false)} /> : null}
    </Page>
  );
}

const columns = (ownId: string | undefined) => [
  {
    title: 'Member',
    cell: ({ id, email, name, has_second_factor }: Member) => (
      <span className="two-lines">
        <span className="row row-wrap">
          {name ?? email}
          {id === ownId ? <Badge tone="good">you</Badge> : null}
          {has_second_factor ? <Badge tone="info">second factor</Badge> : null}
        </span>
        {name ? <span className="faint">{email}</span> : null}
      </span>
    ),
  },
  { title: 'Role', cell: ({ role }: Member) => <Badge>{role}</Badge> },
  projectsColumn,
  {
    title: 'Last sign-in',
    cell: ({ last_sign_in_at }: Member) => (
      <span className="faint">{last_sign_in_at ? formatAge(last_sign_in_at) : 'never'}</span>
    ),
  },
  {
    title: 'Joined',
    cell: ({ joined_at }: Member) => (
      <time className="faint" dateTime={joined_at}>
        {formatAge(joined_at)}
      </time>
    ),
  },
];

const actionsColumn = (members: readonly Member[], onChanged: () => unknown) => ({
  title: 'Actions',
  isTitleHidden: true,
  align: 'end' as const,
  cell: (member: Member) => <MemberActions member={member} members={members} onChanged={onChanged} />,
});
