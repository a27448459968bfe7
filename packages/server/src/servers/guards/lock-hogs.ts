// All projects of a server share one lock table: a project that fills it makes the statements of all others fail.
import { sql } from '../../postgres/sql.ts';
import type { Server } from '../server.ts';

/** A dump of a few thousand tables needs a few thousand locks. The lock table has about 200,000 entries. */
const maxLocks = 50_000;

/**
 * Ends sessions of projects that hold more locks than any reasonable statement needs. With thousands of sessions, reading
 * pg_stat_activity takes longer than reading pg_locks, so only sessions with that many locks are looked up there.
 */
export async function endLockHogs(server: Server): Promise<number> {
  const ended = await server.maintenance.query(sql`
    with hogs as materialized (
      select pid from pg_locks where pid <> pg_backend_pid() group by pid having count(*) > ${maxLocks})
    select pg_terminate_backend(hogs.pid)
    from hogs cross join lateral pg_stat_get_activity(hogs.pid) as session
      join pg_roles on pg_roles.oid = session.usesysid and rolname like 'p\\_%'`);
  return ended.length;
}
