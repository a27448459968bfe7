// The end users of a project: search, create, ban, delete, sessions, and a code to set a new password.

import type { HandedCodeResponse, User, UsersResponse } from '@rowhouse/api';
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useDeferredValue, useState } from 'react';
import { useLocation, useSearchParams } from 'wouter';
import { api, path } from '../api/request.ts';
import { userPageRows } from '../limits.ts';
import { mayWrite } from '../session/may.ts';
import { useSession } from '../session/use-session.ts';
import { ActionsMenu } from '../ui/actions-menu.tsx';
import { Badge } from '../ui/badge.tsx';
import { Button } from '../ui/button.tsx';
import { SecretLine } from '../ui/code.tsx';
import { Confirm } from '../ui/confirm.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { EmptyState } from '../ui/empty-state.tsx';
import { ErrorState } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';
import { formatAge, formatTime } from '../ui/format.ts';
import { Icon } from '../ui/icons.tsx';
import { List } from '../ui/list.tsx';
import type { MenuItem } from '../ui/menu.tsx';
import { Page } from '../ui/page.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { toast } from '../ui/toast.tsx';
import { useParam } from '../ui/use-param.ts';
import { startActing } from './acting.ts';
import { UserForm } from './user-form.tsx';
import { UserSessions } from './user-sessions.tsx';

type Open =
  | { kind: 'create' }
  | { kind: 'edit' | 'delete' | 'sessions'; user: User }
  | { kind: 'code'; user: User; code: HandedCodeResponse };

export function Users({ slug }: { slug: string }) {
  const client = useQueryClient();
  const [, go] = useLocation();
  const [search, setSearch] = useParam('search', ['page']);
  const [params, setParams] = useSearchParams();
  const page = Math.max(1, Math.trunc(Number(params.get('page'))) || 1);
  const setPage = (next: number) =>
    setParams((before) => {
      before.set('page', String(next));
      return before;
    });
  const [open, setOpen] = useState<Open | null>(null);
  const isWritable = mayWrite(useSession());
  const wanted = useDeferredValue(search.trim());
  const { data, error, refetch } = useQuery({
    queryKey: ['project', slug, 'users', wanted, page],
    queryFn: ({ signal }) =>
      api.get<UsersResponse>(
        path`projects/${slug}/auth/users`,
        { limit: userPageRows, page, search: wanted || undefined },
        signal,
      ),
    placeholderData: keepPreviousData,
  });
  const reload = () => client.invalidateQueries({ queryKey: ['project', slug, 'users'] });
  const close = () => setOpen(null);
  const ban = useMutation({
    mutationFn: (user: User) =>
      api.patch(path`projects/${slug}/auth/users/${user.id}`, { banned: !user.banned_at }),
    onSuccess: reload,
    onError: toast.failed,
  });
  const remove = useMutation({
    mutationFn: (user: User) => api.delete(path`projects/${slug}/auth/users/${user.id}`),
    onSuccess: () => {
      close();
      return reload();
    },
  });
  const recover = useMutation({
    mutationFn: (user: User) =>
      api.post<HandedCodeResponse>(path`projects/${slug}/auth/recover`, { email: user.email }),
    onSuccess: (code, user) => setOpen({ kind: 'code', user, code }),
    onError: toast.failed,
  });
  const act = useMutation({
    mutationFn: (id: string) => startActing(slug, id),
    onSuccess: () => go(`/projects/${slug}/tables`),
    onError: toast.failed,
  });
  const actions = (user: User) => [
    { label: 'Act as this user', disabled: user.banned_at !== null, onSelect: () => act.mutate(user.id) },
    { label: 'Edit', onSelect: () => setOpen({ kind: 'edit', user }) },
    { label: 'Sessions', onSelect: () => setOpen({ kind: 'sessions', user }) },
    { label: 'Code to reset the password', onSelect: () => recover.mutate(user) },
    { label: user.banned_at ? 'Lift the ban' : 'Ban', onSelect: () => ban.mutate(user) },
    { label: 'Delete', isDanger: true, onSelect: () => setOpen({ kind: 'delete', user }) },
  ];
  return (
    <Page
      title="Users"
      about="The people who sign in to your application."
      actions={
        isWritable ? (
          <>
            <Button isBusy={act.isPending} onClick={() => act.mutate('anon')}>
              Act as a visitor
            </Button>
            <Button kind="primary" icon={<Icon name="plus" />} onClick={() => setOpen({ kind: 'create' })}>
              New user
            </Button>
          </>
        ) : null
      }
    >
      <div className="filter-line">
        <Field
          label="Search users"
          isLabelHidden
          type="search"
          placeholder="Search by email or id"
          value={search}
          onChange={setSearch}
          maxLength={100}
        />
      </div>
      {error ? <ErrorState error={error} onRetry={() => void refetch()} /> : null}
      {!data && !error ? <Skeleton /> : null}
      {data && data.users.length === 0 ? (
        <EmptyState icon="users" title={wanted ? 'No user matches' : 'No users yet'}>
          {wanted
            ? 'Search for a part of an email address, or a whole id.'
            : 'Users appear when they sign up, or when you create them.'}
        </EmptyState>
      ) : null}
      {data && data.users.length > 0 ? (
        <div className="panel">
          <List
            label="Users"
            columns={isWritable ? [...columns, actionsColumn(actions)] : columns}
            items={data.users}
            keyOf={({ id }) => id}
          />
        </div>
      ) : null}
      {data && (data.has_more || page > 1) ? (
        <div className="pager">
          <Button size="small" disabled={page === 1} onClick={() => setPage(page - 1)}>
            Previous
          </Button>
          <span className="faint">Page {page}</span>
          <Button size="small" disabled={!data.has_more} onClick={() => setPage(page + 1)}>
            Next
          </Button>
        </div>
      ) : null}
      {open?.kind === 'create' || open?.kind === 'edit' ? (
        <UserForm
          slug={slug}
          user={open.kind === 'edit' ? open.user : null}
          onClose={close}
          onSaved={() => {
            close();
            void reload();
          }}
        />
      ) : null}
      {open?.kind === 'sessions' ? <UserSessions slug={slug} user={open.user} onClose={close} /> : null}
      {open?.kind === 'delete' ? (
        <Confirm
          title={`Delete ${open.user.email}`}
          action="Delete user"
          isBusy={remove.isPending}
          error={remove.error}
          onConfirm={() => remove.mutate(open.user)}
          onClose={close}
        >
          The user and all sessions end at once. Rows of your tables that refer to the user decide by their
          foreign key.
        </Confirm>
      ) : null}
      {open?.kind === 'code' ? (
        <Dialog title="Code to reset the password" onClose={close}>
          <div className="stack">
            <p className="muted">
              For {open.user.email}. It can be used once, until {formatTime(open.code.expires_at)}.
            </p>
            <SecretLine text={open.code.code} label="Code" />
          </div>
        </Dialog>
      ) : null}
    </Page>
  );
}

const columns = [
  {
    title: 'Email',
    cell: ({ email, id }: User) => (
      <span className="two-lines">
        <span>{email}</span>
        <span className="faint mono">{id}</span>
      </span>
    ),
  },
  {
    title: 'Role',
    cell: ({ role, banned_at, email_verified_at }: User) => (
      <span className="row row-wrap">
        <Badge>{role}</Badge>
        {email_verified_at ? <Badge tone="good">verified</Badge> : null}
        {banned_at ? <Badge tone="bad">banned</Badge> : null}
      </span>
    ),
  },
  {
    title: 'Last sign-in',
    cell: ({ last_sign_in_at }: User) => (
      <span className="faint">{last_sign_in_at ? formatAge(last_sign_in_at) : 'never'}</span>
    ),
  },
  {
    title: 'Created',
    cell: ({ created_at }: User) => <span className="faint">{formatAge(created_at)}</span>,
  },
];

const actionsColumn = (actions: (user: User) => MenuItem[]) => ({
  title: 'Actions',
  isTitleHidden: true,
  align: 'end' as const,
  cell: (user: User) => <ActionsMenu of={user.email} items={actions(user)} />,
});
