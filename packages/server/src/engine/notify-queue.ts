// All projects of a server share one notification queue. PostgreSQL truncates it only when its usage is queried, and wakes
// listeners that are behind only at a NOTIFY: after a flood that failed, neither happens by itself. Sessions that hold the
// queue back are found and ended by quotas/notify-guard.ts.
import { sql } from '../postgres/sql.ts';
import type { Server } from './servers.ts';

/** A few listeners that are slightly behind are normal. */
const noteworthy = 0.01;

/** Truncates the part that all listeners have read. */
export async function shortenNotifyQueue(server: Server): Promise<void> {
  const [queue] = await server.maintenance.query<{ usage: number }>(
    sql`select pg_notification_queue_usage() as usage`,
  );
  if (queue && queue.usage > noteworthy) await wakeListeners(server);
}

/** Any notification wakes the listeners of other databases that are at least four pages behind. */
export async function wakeListeners(server: Server): Promise<void> {
  await server.maintenance.change(sql`notify rowhouse`);
  await server.maintenance.query(sql`select pg_notification_queue_usage()`);
}
