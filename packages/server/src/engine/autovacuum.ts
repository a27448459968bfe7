// How often autovacuum of the embedded PostgreSQL visits each database. A visit starts a process, and before it the launcher
// looks at all databases: ten a second took 15 % of a core with 3,000 databases. While nothing is committed there is nothing to
// vacuum, and the visits become rare.
import { sql } from '../postgres/sql.ts';
import type { Server } from './servers.ts';
import { openQuietTime } from './when-changed.ts';

export type Autovacuum = { adjust(): Promise<void> };

/** In seconds. */
const [usualNap, longNap] = [300, 4 * 3_600];
/**
 * `perNap`: visits in a usual nap, at most about three a second. With more databases, each is visited less often. `lagMs`: how soon
 * PostgreSQL's statistics show a commit.
 */
const usualPace = { napMs: usualNap * 1_000, perNap: 1_000, lagMs: 60_000 };

/** Call `adjust` again and again: it measures how long nothing is committed. */
export function openAutovacuum(server: Server, { napMs, perNap, lagMs } = usualPace): Autovacuum {
  const readQuietMs = openQuietTime(server);
  let nap = 0;
  return {
    adjust: async () => {
      const quietMs = await readQuietMs();
      const { databases, isVacuuming } = await look(server);
      const naps = Math.ceil(databases / perNap);
      // After the last commit, every database is visited once more.
      const isQuiet = quietMs > lagMs + napMs * naps && !isVacuuming;
      const wanted = isQuiet ? longNap : usualNap * naps;
      if (wanted === nap) return;
      await setNap(server, wanted);
      nap = wanted;
    },
  };
}

type Look = { databases: number; isVacuuming: boolean };

/** `isVacuuming`: an autovacuum process has been at work for a while, so that visits may be late. */
async function look({ maintenance }: Server): Promise<Look> {
  const [row] = await maintenance.query<Look>(sql`
    select count(*)::int as databases,
           exists (select from pg_stat_activity where backend_type = 'autovacuum worker'
                     and backend_start < clock_timestamp() - interval '10 s') as "isVacuuming"
    from pg_database`);
  if (!row) throw new Error('PostgreSQL does not tell its databases.');
  return row;
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
