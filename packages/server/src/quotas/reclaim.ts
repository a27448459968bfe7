// Gives back what a refused or failed statement has left on disk, and makes what was deleted usable again: VACUUM of the
// tables that need it, as the project's own role, and a new index where entries of rows that never came to be fill one.
import { loginOf, type ProjectLogin } from '../engine/provision.ts';
import type { Server } from '../engine/servers.ts';
import { openDatabase, PostgresError, type Queryable } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';
import type { Rooms } from './rooms.ts';

/** Done when it is done; whoever asks meanwhile waits for the same. */
export type Reclaim = (project: ProjectLogin) => Promise<void>;

const tablesAtOnce = 20;

export function openReclaim({ server, rooms }: { server: Server; rooms: Rooms }): Reclaim {
  const running = new Map<string, Promise<void>>();
  return ({ id, passwordVersion }) => {
    const found = running.get(id);
    if (found) return found;
    const work = reclaim(server, rooms, { id, passwordVersion }).finally(() => running.delete(id));
    running.set(id, work);
    return work;
  };
}

async function reclaim(server: Server, rooms: Rooms, project: ProjectLogin): Promise<void> {
  const own = openDatabase(loginOf(server, project), { max: 1, searchPath: 'pg_catalog' });
  try {
    const tables = await findDirty(own);
    for (const table of tables)
      await tryTo(own, sql.script(`vacuum (skip_locked, truncate, parallel 0) ${table}`));
    const { isFull } = await rooms.look(project.id);
    if (!isFull) return;
    for (const table of tables) await tryTo(own, sql.script(`reindex table ${table}`));
    await vacuumOurs(server, project);
    await rooms.look(project.id);
  } finally {
    await own.end();
  }
}

/** With dead rows, or with more pages than it had when it was last looked after. */
async function findDirty(own: Queryable): Promise<string[]> {
  const rows = await own.query<{ name: string }>(sql`
    select format('%I.%I', nspname, relname) as name
    from pg_class
    join pg_namespace on pg_namespace.oid = relnamespace
    left join pg_stat_all_tables as stats on stats.relid = pg_class.oid
    where relkind in ('r', 'm') and relowner = current_user::regrole and relpersistence <> 't'
      and (n_dead_tup > 0 or pg_relation_size(pg_class.oid) > (relpages + 8) * 8192::bigint)
    order by coalesce(n_dead_tup, 0) desc, pg_relation_size(pg_class.oid) - relpages * 8192::bigint desc
    limit ${tablesAtOnce}`);
  return rows.map(({ name }) => name);
}

/** The catalog and the users: tables that the project's role may not tidy up. They hold no code of the project's own. */
async function vacuumOurs(server: Server, project: ProjectLogin): Promise<void> {
  const { database } = loginOf(server, project);
  const ours = openDatabase({ ...server.address, database }, { max: 1, searchPath: 'pg_catalog' });
  try {
    const rows = await ours.query<{ name: string }>(sql`
      select format('%I.%I', schemaname, relname) as name from pg_stat_all_tables
      where schemaname in ('pg_catalog', 'auth') and n_dead_tup > 50
        and has_table_privilege(relid, 'maintain')
      order by n_dead_tup desc limit ${tablesAtOnce}`);
    for (const { name } of rows)
      await tryTo(ours, sql.script(`vacuum (skip_locked, truncate, parallel 0) ${name}`));
  } finally {
    await ours.end();
  }
}

/** A table that is gone or locked meanwhile is left for the next time. */
async function tryTo(database: Queryable, statement: ReturnType<typeof sql.script>): Promise<void> {
  await database.query(statement).catch((error) => {
    if (!(error instanceof PostgresError)) throw error;
  });
}
