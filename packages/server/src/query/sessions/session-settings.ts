// What sessions in projects' databases start with. As startup options, because these beat what the role has set for itself
// with ALTER ROLE, and because RESET and DISCARD go back to them.
import type { ProjectLogin } from '../../engine/provision.ts';
import type { UserSettings } from '../../engine/user-settings.ts';
import { startupOptions } from '../../postgres/startup-options.ts';

type Settings = Readonly<Record<string, string>>;

/** Formats are what the JSON writer expects. What a statement means must not depend on what the role has set. */
const common: Settings = {
  DateStyle: 'ISO, MDY',
  TimeZone: 'UTC',
  IntervalStyle: 'iso_8601',
  bytea_output: 'hex',
  extra_float_digits: '1',
  client_min_messages: 'error',
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
  // Nothing of the project's own is ever found by name here; what it has locked is not waited for.
  auth: { search_path: 'pg_catalog', lock_timeout: '3000' },
};

/** `loginAs`: 'auth' for the role that keeps users, undefined for the project's own. */
export function sessionSettings(users: UserSettings, loginAs: ProjectLogin['loginAs']): Settings {
  const settings = { ...users.current(), ...common, ...own[loginAs === 'auth' ? 'auth' : 'project'] };
  return { application_name: 'rowhouse query', options: startupOptions(settings) };
}
