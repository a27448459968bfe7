// All projects of a server share one notification queue. PostgreSQL truncates it only when its usage is queried, and wakes
// listeners that are behind only at a NOTIFY: after a flood that failed, neither happens by itself. Sessions that hold the
// queue back are found and ended by quotas/direct/notify-guard.ts.
import { openDatabase } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import type { Server } from '../server.ts';

/** A few listeners that are slightly behind are normal. */
const noteworthy = 0.01;

/** Truncates the part that all listeners have read. */
export async function shortenNotifyQueue(server: Server): Promise<void> {
  const [queue] = await server.maintenance.query<{ usage: number }>(
    sql`select pg_notification_queue_usage() as usage`,
  );
  if (queue && queue.usage > noteworthy) await wakeListeners(server);
}

/** The guard recognizes by it the session that wakes listeners: it sends nothing else. */
export const wakingStatement = 'notify rowhouse_wakes';

export type ListenerWaker = { wake(): void; stop(): Promise<void> };

/**
 * Wakes listeners on a connection of its own. A notification waits for those before it: one of 400 MB takes a moment. So only
 * one is under way.
 */
export function openListenerWaker(server: Server): ListenerWaker {
  const connection = openDatabase(server.address, { max: 1, statementMs: wakingMs });
  let waking: Promise<unknown> | null = null;
  return {
    wake: () => {
      waking ??= connection
        .change(sql.script(wakingStatement))
        .catch(() => {})
        .finally(() => {
          waking = null;
        });
    },
    stop: async () => {
      await waking;
      await connection.end();
    },
  };
}

const wakingMs = 5_000;

/** Any notification wakes the listeners of other databases that are at least four pages behind. */
async function wakeListeners(server: Server): Promise<void> {
  await server.maintenance.change(sql`notify rowhouse`);
  await server.maintenance.query(sql`select pg_notification_queue_usage()`);
}
