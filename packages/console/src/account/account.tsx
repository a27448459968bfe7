// The own account: its name, what it requires of members, what it may use.
import type { Account as AccountFacts, ChangeOwnAccount, OwnAccountResponse } from '@rowhouse/api';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../api/request.ts';
import { mayManageAccount } from '../session/may.ts';
import { refresh } from '../session/session.ts';
import { useSession } from '../session/use-session.ts';
import { ErrorNote, ErrorState } from '../ui/error-state.tsx';
import { CheckField, Field } from '../ui/field.tsx';
import { FormPanel } from '../ui/form-panel.tsx';
import { formatMb, formatNumber } from '../ui/format.ts';
import { Page, Section } from '../ui/page.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { toast } from '../ui/toast.tsx';
import { AccountKeys } from './account-keys.tsx';

export function Account() {
  const session = useSession();
  const { data, error, refetch } = useQuery({
    queryKey: ['account'],
    queryFn: ({ signal }) => api.get<OwnAccountResponse>('account', undefined, signal),
  });
  if (error) return <ErrorState isPage error={error} onRetry={() => void refetch()} />;
  if (!data) return <Skeleton lines={6} />;
  const { account } = data;
  return (
    <Page
      title="Account"
      about={session.role ? `Your role in ${account.name} is ${session.role}.` : undefined}
    >
      <Section title="Limits" about="The operator of this installation sets them.">
        <div className="panel panel-pad">
          <dl className="facts">
            <dt>Projects</dt>
            <dd>{used(formatNumber(account.projects), account.max_projects, formatNumber)}</dd>
            <dt>Size limits of all projects</dt>
            <dd>{used(formatMb(account.total_limit_mb), account.max_total_mb, formatMb)}</dd>
            <dt>Requests per second</dt>
            <dd>{account.max_requests_per_second ?? 'no limit'}</dd>
          </dl>
        </div>
      </Section>
      {mayManageAccount(session) ? (
        <>
          <Name key={account.name} account={account} />
          <Requirement account={account} />
          <AccountKeys />
        </>
      ) : null}
    </Page>
  );
}

const used = (now: string, max: number | null, format: (value: number) => string) =>
  max === null ? now : `${now} of ${format(max)}`;

function useChange() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: ChangeOwnAccount) => api.patch('account', body),
    onSuccess: async () => {
      toast.done('Saved.');
      // The session names the account, and the requirement may lock the own session out.
      await refresh();
      return client.invalidateQueries({ queryKey: ['account'] });
    },
  });
}

function Name({ account }: { account: AccountFacts }) {
  const [name, setName] = useState(account.name);
  const save = useChange();
  return (
    <FormPanel
      title="Name"
      error={save.error}
      isBusy={save.isPending}
      isChanged={name !== account.name}
      isReady={name.trim() !== '' && name.trim() !== account.name}
      onSubmit={() => save.mutate({ name: name.trim() })}
    >
      <Field label="Name" isLabelHidden value={name} onChange={setName} maxLength={100} required />
    </FormPanel>
  );
}

function Requirement({ account }: { account: AccountFacts }) {
  const change = useChange();
  return (
    <Section title="Sign-in">
      <div className="panel panel-pad">
        {change.error ? <ErrorNote error={change.error} /> : null}
        <CheckField
          label="Require a second factor"
          help="Members without one reach only their profile, until they have set one up. Keys are not affected."
          checked={account.requires_second_factor}
          onChange={(isRequired) => change.mutate({ requires_second_factor: isRequired })}
        />
      </div>
    </Section>
  );
}
