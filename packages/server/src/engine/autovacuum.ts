// How often autovacuum of the embedded PostgreSQL visits each database. A visit starts a process: with 3,000 databases, ten a
// second. While nothing is committed there is nothing to vacuum, and the visits become rare.
import { sql } from '../postgres/sql.ts';
import type { Server } from './servers.ts';
import { openQuietTime } from './when-changed.ts';

export type Autovacuum = { adjust(): Promise<void> };

/** In seconds. With less than five minutes, autovacuum would do nothing but start in thousands of databases. */
const [usualNap, longNap] = [300, 4 * 3_600];
/** How long a visit of all databases takes at least. PostgreSQL starts no more than one process in `startMs`. */
const usualTimes = { roundMs: usualNap * 1_000, startMs: 100 };

/** Call `adjust` again and again: it measures how long nothing is committed. */
export function openAutovacuum(server: Server, { roundMs, startMs } = usualTimes): Autovacuum {
  const readQuietMs = openQuietTime(server);
  let nap = 0;
  return {
    adjust: async () => {
      const quietMs = await readQuietMs();
      // After the last commit, every database is visited once more.
      const isQuiet = quietMs > 2 * roundMs && quietMs > 2 * startMs * (await countDatabases(server));
      const wanted = isQuiet ? longNap : usualNap;
      if (wanted === nap) return;
      await setNap(server, wanted);
      nap = wanted;
    },
  };
}

async function countDatabases({ maintenance }: Server): Promise<number> {
  const [row] = await maintenance.query<{ count: number }>(
    sql`select count(*)::int as count from pg_database`,
  );
  return row?.count ?? 0;
}

/** In a file, because what was set at the start of PostgreSQL cannot be changed while it runs. */
async function setNap({ maintenance }: Server, seconds: number): Promise<void> {
  const [row] = await maintenance.query<{ seconds: number }>(
    sql`select setting::int as seconds from pg_settings where name = 'autovacuum_naptime'`,
  );
  if (row?.seconds === seconds) return;
  await maintenance.change(sql`alter system set autovacuum_naptime = ${sql.literal(`${seconds}s`)}`);
  await maintenance.query(sql`select pg_reload_conf()`);
}
