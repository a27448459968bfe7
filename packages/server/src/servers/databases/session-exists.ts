// SQL: whether there is a session in a project's database, ours included.
import { sql } from '../../postgres/sql.ts';

/**
 * Autovacuum's processes have no user. OFFSET 0: databases are looked up by their key. Otherwise PostgreSQL would read all of
 * them.
 */
export const sessionExists = sql`exists (
  select from pg_stat_get_backend_idset() as backend (id)
    cross join lateral (
      select datname from pg_database where oid = pg_stat_get_backend_dbid(backend.id) offset 0
    ) as database
  where database.datname like 'p\\_%' and pg_stat_get_backend_userid(backend.id) <> 0)`;
