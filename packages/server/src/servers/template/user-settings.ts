// Every setting that a role may change for itself, with the server's default. Our sessions in project databases start with
// all of them, because startup options take precedence over ALTER ROLE: how text is parsed, how values are written and
// whether a login works must not depend on a project's settings.
import type { Queryable } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';

export type UserSettings = {
  /** At most a minute old: an operator may reload the server's configuration. */
  current(): Readonly<Record<string, string>>;
};

const refreshAfterMs = 60_000;

/** PostgreSQL knows these only after the first PL/pgSQL code has run in a session, and accepts any value until then. */
const plpgsqlSettings = {
  'plpgsql.check_asserts': 'on',
  'plpgsql.extra_errors': 'none',
  'plpgsql.extra_warnings': 'none',
  'plpgsql.print_strict_params': 'off',
};

export async function openUserSettings(maintenance: Queryable): Promise<UserSettings> {
  let known = await read(maintenance);
  let readAt = performance.now();
  return {
    current: () => {
      if (performance.now() - readAt > refreshAfterMs) {
        readAt = performance.now();
        read(maintenance).then(
          (found) => {
            known = found;
          },
          // The previous values remain valid.
          () => {},
        );
      }
      return known;
    },
  };
}

/**
 * Excluded: settings of a transaction, settings that every session sends itself, the text search configuration, which runs no
 * code and would cost each connection 170 KB, and settings of extensions: a startup packet holds at most 10,000 bytes, and
 * the server's own settings take about 5,000. Settings of the service's own role do not apply to projects.
 */
async function read(maintenance: Queryable): Promise<Readonly<Record<string, string>>> {
  const rows = await maintenance.query<{ name: string; value: string }>(sql`
    select name, coalesce(
      case when source in ('default', 'environment variable', 'configuration file', 'command line', 'global', 'override')
           then reset_val else boot_val end, '') as value
    from pg_settings
    where context = 'user' and name !~ '[.]' and name not in ('transaction_isolation', 'transaction_read_only', 'transaction_deferrable',
      'application_name', 'client_encoding', 'default_text_search_config')`);
  // Not in pg_settings: `role`, with which the project could have its role replaced by another one.
  const settings: Record<string, string> = { role: 'none', ...plpgsqlSettings };
  for (const { name, value } of rows) settings[name] = value;
  return settings;
}
