// The queue of notifications is one for all projects of a server. A transaction that fills it and fails leaves it full:
// PostgreSQL makes room only when somebody looks at it, so that is done here.
import { sql } from '../postgres/sql.ts';
import type { Server } from './servers.ts';

/** A listener in a transaction this old is what keeps the queue from getting shorter. */
const patienceS = 10;

/** Makes room; returns how many sessions had to be ended for it. */
export async function shortenNotifyQueue(server: Server): Promise<number> {
  const [queue] = await server.maintenance.query<{ usage: number }>(
    sql`select pg_notification_queue_usage() as usage`,
  );
  if (!queue || queue.usage < 0.5) return 0;
  const ended = await server.maintenance.query(sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where usename like 'p\\_%' and xact_start < clock_timestamp() - make_interval(secs => ${patienceS})`);
  return ended.length;
}
