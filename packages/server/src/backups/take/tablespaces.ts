// Tablespaces are folders outside of the data folder. A restore on another machine could not put them back where they were,
// so a server that has some gets no backups, and is told why. The embedded PostgreSQL never has any.
import { errors } from '../../errors/errors.ts';
import type { Queryable } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';

export async function listTablespaces(maintenance: Queryable): Promise<string[]> {
  const rows = await maintenance.query<{ name: string }>(
    sql`select spcname as name from pg_tablespace where spcname not in ('pg_default', 'pg_global') order by spcname`,
  );
  return rows.map(({ name }) => name);
}

export const tablespaceHint =
  'Move everything in them to pg_default and drop them (ALTER DATABASE … SET TABLESPACE, DROP TABLESPACE). Or back the server up with pg_basebackup, and set ROWHOUSE_BACKUP_URL=off.';

export function describeTablespaces(names: readonly string[]): string {
  return `the server has tablespaces, which backups cannot restore: ${names.join(', ')}`;
}

export async function refuseTablespaces(maintenance: Queryable): Promise<void> {
  const names = await listTablespaces(maintenance);
  if (names.length === 0) return;
  throw errors.backupFailed(`No backup was taken: ${describeTablespaces(names)}.`, tablespaceHint, null);
}
