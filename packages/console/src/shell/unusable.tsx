// Replaces every screen while the account cannot be used: it is suspended, or requires a second factor.
import { Link } from 'wouter';
import { useSession } from '../session/use-session.ts';
import { EmptyState } from '../ui/empty-state.tsx';
import { useOwnAccounts } from './account-menu.tsx';

export function Unusable() {
  const { account, suspended_because: reason } = useSession();
  const hasOthers = useOwnAccounts().length > 0;
  if (reason !== null) {
    return (
      <EmptyState icon="alert" title={`${account.name} is suspended`} isPage>
        {reason} All data is kept. Ask the operator of this installation
        {hasOthers ? ', or go to another account: the menu at the bottom left has them.' : '.'}
      </EmptyState>
    );
  }
  return (
    <EmptyState
      icon="key"
      title={`${account.name} requires a second factor`}
      isPage
      action={
        <Link href="/profile" className="button button-primary">
          Set it up
        </Link>
      }
    >
      Add an authenticator app to your password. Then everything works again.
    </EmptyState>
  );
}
