// All projects of a server share one lock table: a project that fills it makes the statements of all others fail.
import { sql } from '../postgres/sql.ts';
import type { Server } from './servers.ts';

/** A dump of a few thousand tables needs a few thousand locks. The lock table has about 200,000 entries. */
const maxLocks = 50_000;

/** Ends sessions of projects that hold more locks than any reasonable statement needs. */
export async function endLockHogs(server: Server): Promise<number> {
  const ended = await server.maintenance.query(sql`
    select pg_terminate_backend(hog.pid)
    from (select pid from pg_locks where pid <> pg_backend_pid() group by pid having count(*) > ${maxLocks}) as hog
    join pg_stat_activity on pg_stat_activity.pid = hog.pid and usename like 'p\\_%'`);
  return ended.length;
}
