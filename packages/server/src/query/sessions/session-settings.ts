// The settings of new sessions in projects' databases. They are startup options, because those take precedence over
// ALTER ROLE … SET, and because RESET and DISCARD restore them.

import { startupOptions } from '../../postgres/wire/startup-options.ts';
import { isUserLogin, type ProjectLogin, roleBehind } from '../../servers/databases/login.ts';
import type { UserSettings } from '../../servers/template/user-settings.ts';

type Settings = Readonly<Record<string, string>>;

/** The JSON writer expects these formats. The meaning of a statement must not depend on the role's settings. */
const common: Settings = {
  DateStyle: 'ISO, MDY',
  TimeZone: 'UTC',
  IntervalStyle: 'iso_8601',
  bytea_output: 'hex',
  extra_float_digits: '1',
  // A warning says that a commit was not replicated (postgres/wire/session.ts). All others are skipped there.
  client_min_messages: 'warning',
  standard_conforming_strings: 'on',
  statement_timeout: '0',
  idle_in_transaction_session_timeout: '0',
  synchronous_commit: 'on',
  client_connection_check_interval: '1000',
  local_preload_libraries: '',
  default_transaction_isolation: 'read committed',
  default_transaction_read_only: 'off',
  default_transaction_deferrable: 'off',
  row_security: 'on',
};
const own: Record<'project' | 'auth', Settings> = {
  project: { search_path: 'public' },
  // The project's own objects are never found by name here, and its locks are not waited for beyond 3 s.
  auth: { search_path: 'pg_catalog', lock_timeout: '3000' },
};

/** `loginAs`: 'auth' for the role that manages end users, undefined for the project's own role. */
export function sessionSettings(users: UserSettings, loginAs: ProjectLogin['loginAs']): Settings {
  const settings = {
    ...users.current(),
    ...common,
    ...own[loginAs === 'auth' ? 'auth' : 'project'],
    // PostgreSQL plans anew when the role changes, so a session has one role from its start.
    ...(isUserLogin(loginAs) && { role: roleBehind(loginAs) }),
  };
  return { application_name: 'rowhouse query', options: startupOptions(settings) };
}
