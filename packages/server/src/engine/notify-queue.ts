// The queue of notifications is one for all projects of a server. PostgreSQL makes room in it only when somebody looks at
// its length, and wakes listeners that are behind only when somebody notifies: after a flood that failed, nobody does either.
// Whoever holds it back is found and ended by the watch over sessions (quotas/notify-guard.ts).
import { sql } from '../postgres/sql.ts';
import type { Server } from './servers.ts';

/** A few listeners that are a little behind are nothing unusual. */
const noteworthy = 0.01;

/** Makes room where everybody has read on. */
export async function shortenNotifyQueue(server: Server): Promise<void> {
  const [queue] = await server.maintenance.query<{ usage: number }>(
    sql`select pg_notification_queue_usage() as usage`,
  );
  if (queue && queue.usage > noteworthy) await wakeListeners(server);
}

/** Whoever listens in another database is woken by a notification of any kind, once it is four pages behind. */
export async function wakeListeners(server: Server): Promise<void> {
  await server.maintenance.change(sql`notify rowhouse`);
  await server.maintenance.query(sql`select pg_notification_queue_usage()`);
}
