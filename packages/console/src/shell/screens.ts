// The screens of a project, in the order of the sidebar. The palette lists them too.
import type { IconName } from '../ui/icons.tsx';

export const projectScreens: readonly { path: string; label: string; icon: IconName }[] = [
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
