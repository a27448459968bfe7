// The pause between two rounds of background work on a server. While nobody uses the server and nothing is committed, the
// rounds are rare. Use is noticed as soon as before, by one cheap look for all loops of the server.
import { pause } from '../pause.ts';
import { sql } from '../postgres/sql.ts';
import type { Server } from './servers.ts';
import { openQuietTime } from './when-changed.ts';

/**
 * Resolves when the next round is due, or as soon as the signal is aborted. `sinceMs`: how long ago the last round began, if rounds
 * are to begin at equal distances.
 */
export type Rest = (ended: AbortSignal, sinceMs?: number) => Promise<void>;

/** Between two rounds that take long: statements of callers come first. */
const shortestMs = 50;
const usualPace = { tickMs: 2_000, longMs: 10_000, quietAfterMs: 30_000 };

export function openRest(server: Server, { tickMs, longMs, quietAfterMs } = usualPace): Rest {
  const readQuietMs = openQuietTime(server);
  const look = async () => (await readQuietMs()) < quietAfterMs || (await hasSessions(server));
  let last: { at: number; isUsed: Promise<boolean> } | null = null;
  const isUsed = () => {
    if (!last || performance.now() - last.at > tickMs / 2) {
      // The round that follows a failure reports it.
      last = { at: performance.now(), isUsed: look().catch(() => true) };
    }
    return last.isUsed;
  };
  return async (ended, sinceMs = 0) => {
    await pause(Math.max(shortestMs, tickMs - sinceMs), ended);
    for (let waited = tickMs; waited < longMs && !ended.aborted; waited += tickMs) {
      if (await isUsed()) return;
      await pause(tickMs, ended);
    }
  };
}

/** Whether there is a session in a project's database, ours included. Autovacuum's processes have no user. */
async function hasSessions({ maintenance }: Server): Promise<boolean> {
  const [row] = await maintenance.query<{ found: boolean }>(sql`
    select exists (
      select from pg_stat_get_backend_idset() as backend (id)
        cross join lateral (
          select datname from pg_database where oid = pg_stat_get_backend_dbid(backend.id) offset 0
        ) as database
      where database.datname like 'p\\_%' and pg_stat_get_backend_userid(backend.id) <> 0) as found`);
  return row?.found ?? true;
}
