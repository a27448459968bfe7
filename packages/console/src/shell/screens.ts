// The screens of a project, in the order of the sidebar. The palette lists them too.
import { mayWrite } from '../session/may.ts';
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
