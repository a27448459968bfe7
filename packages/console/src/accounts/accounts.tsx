// All accounts of the installation, for operators: search, create, limit, suspend, delete and restore.
import type { Account, AccountsResponse } from '@rowhouse/api';
import { keepPreviousData, useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { useDeferredValue, useState } from 'react';
import { useSearchParams } from 'wouter';
import { api } from '../api/request.ts';
import { Badge } from '../ui/badge.tsx';
import { Button } from '../ui/button.tsx';
import { EmptyState } from '../ui/empty-state.tsx';
import { ErrorState } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';
import { formatAge, formatMb, formatNumber, formatTime } from '../ui/format.ts';
import { Icon } from '../ui/icons.tsx';
import { List } from '../ui/list.tsx';
import { Page } from '../ui/page.tsx';
import { ShowMore } from '../ui/show-more.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { Tabs } from '../ui/tabs.tsx';
import { useParam } from '../ui/use-param.ts';
import { AccountActions } from './account-actions.tsx';
import { CreateAccount } from './create-account.tsx';
import { RecoverPerson } from './recover-person.tsx';

const pageAccounts = 50;
const tabs = [
  { key: 'live', label: 'Accounts' },
  { key: 'deleted', label: 'Deleted' },
] as const;

export function Accounts() {
  const client = useQueryClient();
  const [params, setParams] = useSearchParams();
  const status = params.has('deleted') ? 'deleted' : 'live';
  const [open, setOpen] = useState<'create' | 'recover' | null>(null);
  const close = () => setOpen(null);
  const reload = () => client.invalidateQueries({ queryKey: ['accounts'] });
  return (
    <Page
      title="Accounts"
      about="Each account has its own projects, keys and members, and sees nothing of the others."
      actions={
        <>
          <Button onClick={() => setOpen('recover')}>Help somebody to sign in</Button>
          <Button kind="primary" icon={<Icon name="plus" />} onClick={() => setOpen('create')}>
            New account
          </Button>
        </>
      }
    >
      <Tabs
        label="Accounts"
        tabs={tabs}
        current={status}
        onChange={(key) => setParams(key === 'deleted' ? { deleted: '' } : {})}
      >
        <AccountList key={status} status={status} onChanged={reload} />
      </Tabs>
      {open === 'create' ? <CreateAccount onCreated={reload} onClose={close} /> : null}
      {open === 'recover' ? <RecoverPerson onClose={close} /> : null}
    </Page>
  );
}

function AccountList({ status, onChanged }: { status: 'live' | 'deleted'; onChanged: () => unknown }) {
  const [search, setSearch] = useParam('search');
  const words = useDeferredValue(search.trim());
  const found = useInfiniteQuery({
    queryKey: ['accounts', status, words],
    queryFn: ({ signal, pageParam: page }) =>
      api.get<AccountsResponse>(
        'accounts',
        { status, page, limit: pageAccounts, search: words || undefined },
        signal,
      ),
    initialPageParam: 1,
    getNextPageParam: ({ page, has_more }) => (has_more ? page + 1 : undefined),
    placeholderData: keepPreviousData,
  });
  const accounts = found.data?.pages.flatMap((page) => page.accounts);
  return (
    <>
      <div className="filter-line">
        <Field
          label="Search accounts"
          isLabelHidden
          type="search"
          placeholder="Search by name or id"
          value={search}
          onChange={setSearch}
          maxLength={100}
        />
      </div>
      {found.error ? <ErrorState error={found.error} onRetry={() => void found.refetch()} /> : null}
      {!accounts && !found.error ? <Skeleton /> : null}
      {accounts?.length === 0 ? (
        <EmptyState icon="search" title={words ? 'No account matches' : 'No deleted accounts'}>
          {words
            ? 'Search for a part of the name, or a whole id.'
            : 'Deleted accounts can be restored for 7 days.'}
        </EmptyState>
      ) : null}
      {accounts && accounts.length > 0 ? (
        <div className="panel">
          <List
            label="Accounts"
            columns={[...columns, actionsColumn(onChanged)]}
            items={accounts}
            keyOf={({ id }) => id}
          />
          <ShowMore pages={found} />
        </div>
      ) : null}
    </>
  );
}

const tones = { active: 'good', suspended: 'warn', deleted: 'plain' } as const;
const of = (limit: string | null) => (limit === null ? '' : ` of ${limit}`);

const columns = [
  {
    title: 'Name',
    cell: ({ name, id }: Account) => (
      <span className="two-lines">
        <span>{name}</span>
        <span className="faint mono">{id}</span>
      </span>
    ),
  },
  {
    title: 'Status',
    cell: ({ status, suspended_because, is_operator, dropped_after }: Account) => (
      <span className="row row-wrap">
        <Badge tone={tones[status]}>{status}</Badge>
        {is_operator ? <Badge tone="info">operator</Badge> : null}
        {suspended_because ? <span className="faint">{suspended_because}</span> : null}
        {dropped_after ? <span className="faint">kept until {formatTime(dropped_after)}</span> : null}
      </span>
    ),
  },
  {
    title: 'Projects',
    cell: ({ projects, max_projects }: Account) =>
      `${formatNumber(projects)}${of(max_projects === null ? null : formatNumber(max_projects))}`,
  },
  {
    title: 'Size limits',
    cell: ({ total_limit_mb, max_total_mb }: Account) =>
      `${formatMb(total_limit_mb)}${of(max_total_mb === null ? null : formatMb(max_total_mb))}`,
  },
  {
    title: 'Requests/s',
    cell: ({ max_requests_per_second: max }: Account) =>
      max === null ? <span className="faint">no limit</span> : formatNumber(max),
  },
  {
    title: 'Created',
    cell: ({ created_at }: Account) => (
      <time className="faint" dateTime={created_at}>
        {formatAge(created_at)}
      </time>
    ),
  },
];

const actionsColumn = (onChanged: () => unknown) => ({
  title: 'Actions',
  isTitleHidden: true,
  align: 'end' as const,
  cell: (account: Account) => <AccountActions account={account} onChanged={onChanged} />,
});
