// How often autovacuum of the embedded PostgreSQL visits each database. A visit starts a process, and before it the launcher
// looks at all databases: ten a second took 15 % of a core with 3,000 databases. While nobody is in the database of a project
// there is little to vacuum, and the visits become rare. Commits would not tell: autovacuum's own work is one, and changes the
// sizes of projects, which are then noted in the control database.
import { sql } from '../../postgres/sql.ts';
import { sessionExists } from '../databases/session-exists.ts';
import type { Server } from '../server.ts';

export type Autovacuum = { adjust(): Promise<void> };

/** In seconds. */
const [usualNap, longNap] = [300, 4 * 3_600];
/**
 * `perNap`: visits in a usual nap, at most about three a second. With more databases, each is visited less often. `lagMs`: how soon
 * PostgreSQL's statistics show what a session has done.
 */
const usualPace = { napMs: usualNap * 1_000, perNap: 1_000, lagMs: 60_000 };

/** Rows written to other databases, above all the control database, that count as use. */
const manyRows = 50_000;

/** Call `adjust` again and again: it measures how long nobody is in the database of a project. */
export function openAutovacuum(server: Server, { napMs, perNap, lagMs } = usualPace): Autovacuum {
  let nap = 0;
  let seen: string | null = null;
  let usedAt = 0;
  let rowsThen = 0;
  return {
    adjust: async () => {
      const { databases, sessions, isUsed, rows, isVacuuming } = await look(server);
      // After a restart the setting may be another one.
      if (sessions !== seen) nap = 0;
      if (isUsed || sessions !== seen || rows - rowsThen > manyRows) {
        usedAt = performance.now();
        rowsThen = rows;
      }
      seen = sessions;
      const naps = Math.ceil(databases / perNap);
      // After the last session, every database is visited once more.
      const isQuiet = performance.now() - usedAt > lagMs + napMs * naps && !isVacuuming;
      const wanted = isQuiet ? longNap : usualNap * naps;
      if (wanted === nap) return;
      await setNap(server, wanted);
      nap = wanted;
    },
  };
}

type Look = {
  databases: number;
  /** Changes with each session in the database of a project, also with one that has ended, and after a crash. */
  sessions: string;
  /** There is such a session now. */
  isUsed: boolean;
  /** Written to other databases since PostgreSQL's statistics began. */
  rows: number;
  /** An autovacuum process has been at work for a while, so that visits may be late. */
  isVacuuming: boolean;
};

async function look({ maintenance }: Server): Promise<Look> {
  const [row] = await maintenance.query<Look>(sql`
    select count(*)::int as databases,
           concat_ws(' ', pg_postmaster_start_time(),
             sum(pg_stat_get_db_sessions(oid)) filter (where datname like 'p\\_%')) as sessions,
           ${sessionExists} as "isUsed",
           coalesce(sum(pg_stat_get_db_tuples_inserted(oid) + pg_stat_get_db_tuples_updated(oid)
             + pg_stat_get_db_tuples_deleted(oid)) filter (where datname not like 'p\\_%'), 0)::float8 as rows,
           exists (select from pg_stat_activity where backend_type = 'autovacuum worker'
                     and backend_start < clock_timestamp() - interval '10 s') as "isVacuuming"
    from pg_database`);
  if (!row) throw new Error('PostgreSQL does not list its databases.');
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
