// Where the person is signed in with this key, or as this person.
import { Page } from '../ui/page.tsx';
import { SessionList } from './session-list.tsx';
import { useSession } from './use-session.ts';

export const aboutSessions =
  'A session ends after 2 hours without a request, and after 12 hours in any case.';

export function Sessions() {
  const { person } = useSession();
  const whose = person ? 'as you' : 'with the same key';
  return (
    <Page title="Sessions" about={`Browsers that are signed in to this console ${whose}. ${aboutSessions}`}>
      <SessionList />
    </Page>
  );
}
