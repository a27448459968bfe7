// How large a project is, and whether backends that are not ours are in its database.

import { type Sql, sql } from '../postgres/sql.ts';
import { databaseOf } from '../servers/databases/names.ts';

/** `epoch`: when, by PostgreSQL's clock. `others`: null if they were not counted. */
export type Size = { size: number; epoch: number; others: number | null };

/** `pids`: backends that may be there. If they are given, others are counted. */
export function sizeQuery(projectId: string, pids: readonly number[] | null): Sql {
  const others = pids
    ? sql`(select count(*)::int from pg_stat_get_backend_idset() as backend (id)
           where pg_stat_get_backend_dbid(id) = pg_database.oid
             and pg_stat_get_backend_pid(id) <> all (${[...pids]}::int[]))`
    : sql`null`;
  return sql`
    select extract(epoch from clock_timestamp())::float8 as epoch, pg_database_size(oid)::float8 as size, ${others} as others
    from pg_database where datname = ${databaseOf(projectId)}`;
}
