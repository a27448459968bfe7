// The own profile: name, email address, password, second factor, sessions. It works also while the account cannot be used.
import { useQuery } from '@tanstack/react-query';
import { personQuery } from '../api/queries.ts';
import { SessionList } from '../session/session-list.tsx';
import { aboutSessions } from '../session/sessions.tsx';
import { Badge } from '../ui/badge.tsx';
import { ErrorState } from '../ui/error-state.tsx';
import { List } from '../ui/list.tsx';
import { Page, Section } from '../ui/page.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import './profile.css';
import { EmailSection } from './email-section.tsx';
import { NameSection } from './name-section.tsx';
import { PasskeysSection } from './passkeys-section.tsx';
import { PasswordSection } from './password-section.tsx';
import { ProviderSection } from './provider-section.tsx';
import { SecondFactorSection } from './second-factor-section.tsx';

export function Profile() {
  const { data, error, refetch } = useQuery(personQuery());
  if (error) return <ErrorState isPage error={error} onRetry={() => void refetch()} />;
  if (!data) return <Skeleton lines={8} />;
  const { person, accounts } = data;
  return (
    <Page title="Profile" about={`You are signed in as ${person.email}.`}>
      <NameSection person={person} />
      <EmailSection person={person} />
      <PasswordSection person={person} />
      <SecondFactorSection person={person} />
      <PasskeysSection />
      <ProviderSection />
      <Section title="Sessions" about={aboutSessions}>
        <SessionList />
      </Section>
      <Section title="Accounts" about="You switch between them in the menu below the sidebar.">
        <div className="panel">
          <List label="Accounts" columns={columns} items={accounts} keyOf={({ id }) => id} />
        </div>
      </Section>
    </Page>
  );
}

type OwnAccount = { id: string; name: string; role: string };
const columns = [
  { title: 'Account', cell: ({ name }: OwnAccount) => name },
  { title: 'Your role', cell: ({ role }: OwnAccount) => <Badge>{role}</Badge> },
];
