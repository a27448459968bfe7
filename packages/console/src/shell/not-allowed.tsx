// For an address that somebody may not open: whose it is, and what to do.
import type { Session } from '../session/session.ts';
import { useSession } from '../session/use-session.ts';
import { EmptyState } from '../ui/empty-state.tsx';
import { usePageTitle } from '../ui/page.tsx';

/** `who`: "developers of this account". */
export function NotAllowed({ screen, who }: { screen: string; who: string }) {
  const session = useSession();
  usePageTitle(screen);
  return (
    <EmptyState icon="key" title={`No access to ${screen}`} isPage>
      {subjectOf(session)} This page is for {who}. Ask an owner or an admin of {session.account.name} for
      another role.
    </EmptyState>
  );
}

function subjectOf({ role }: Session): string {
  return role === null ? 'You signed in with the key of a project.' : `Your role is ${role}.`;
}
