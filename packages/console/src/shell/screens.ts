// The screens of a project and of the account, in the order of the sidebar. The palette lists them too.
import { isUsable, mayManageAccount, mayOperate, mayWrite } from '../session/may.ts';
import type { Session } from '../session/session.ts';
import type { IconName } from '../ui/icons.tsx';

type Screen = { path: string; label: string; icon: IconName };

const screens: readonly Screen[] = [
  { path: 'tables', label: 'Tables', icon: 'grid' },
  { path: 'sql', label: 'SQL', icon: 'sql' },
  { path: 'schema', label: 'Schema', icon: 'schema' },
  { path: 'users', label: 'Users', icon: 'users' },
  { path: 'keys', label: 'Keys', icon: 'key' },
  { path: 'usage', label: 'Usage', icon: 'usage' },
  { path: 'logs', label: 'Logs', icon: 'logs' },
  { path: 'api', label: 'API', icon: 'api' },
  { path: 'settings', label: 'Settings', icon: 'settings' },
];

const forWriters = ['keys', 'logs'];

export const projectScreens = (session: Session) =>
  screens.filter(({ path }) => mayWrite(session) || !forWriters.includes(path));

type AccountScreen = Screen & { who: (session: Session) => boolean };

const isOfAccount = ({ scope }: Session) => scope === 'account';

const ofAccount: readonly AccountScreen[] = [
  { path: '/projects', label: 'Projects', icon: 'database', who: () => true },
  { path: '/account/members', label: 'Members', icon: 'users', who: isOfAccount },
  { path: '/account/audit', label: 'Audit log', icon: 'logs', who: mayManageAccount },
  { path: '/account/settings', label: 'Account', icon: 'settings', who: isOfAccount },
  { path: '/accounts', label: 'Accounts', icon: 'duplicate', who: mayOperate },
  { path: '/server', label: 'Server', icon: 'server', who: isOfAccount },
];

export const accountScreens = (session: Session): readonly Screen[] =>
  isUsable(session) ? ofAccount.filter(({ who }) => who(session)) : [];
