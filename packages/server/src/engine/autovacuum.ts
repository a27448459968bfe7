// How often autovacuum of the embedded PostgreSQL visits each database. A visit starts a process, and before it the launcher
// looks at all databases: ten a second took 15 % of a core with 3,000 databases. While nothing is committed there is nothing to
// vacuum, and the visits become rare.
import { sql } from '../postgres/sql.ts';
import type { Server } from './servers.ts';
import { openQuietTime } from './when-changed.ts';

export type Autovacuum = { adjust(): Promise<void> };

/** In seconds. */
const [usualNap, longNap] = [300, 4 * 3_600];
/** With so many databases, there are three to four visits a second. With more, each database is visited less often. */
const databasesInUsualNap = 1_000;
/** How long the usual nap is, how soon PostgreSQL's statistics show a commit, and how soon it starts a process after another. */
const usualTimes = { roundMs: usualNap * 1_000, lagMs: 60_000, startMs: 100 };

/** Call `adjust` again and again: it measures how long nothing is committed. */
export function openAutovacuum(server: Server, { roundMs, lagMs, startMs } = usualTimes): Autovacuum {
  const readQuietMs = openQuietTime(server);
  let nap = 0;
  return {
    adjust: async () => {
      const quietMs = await readQuietMs();
      const databases = await countDatabases(server);
      const rounds = roundsFor(databases);
      // After the last commit, every database is visited once more.
      const isQuiet = quietMs > lagMs + Math.max(roundMs * rounds, 2 * startMs * databases);
      const wanted = isQuiet ? longNap : usualNap * rounds;
      if (wanted === nap) return;
      await setNap(server, wanted);
      nap = wanted;
    },
  };
}

/** How many times longer than usual autovacuum takes for a visit of so many databases. */
export function roundsFor(databases: number): number {
  return Math.max(1, Math.round(databases / databasesInUsualNap));
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
