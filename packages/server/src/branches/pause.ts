// Runs an operation that needs a project's database to itself: a copy, an exchange. Requests through the API wait at the
// gate of their process and see no error; direct sessions are ended. A statement that runs is waited for, and if it takes
// long, the other requests go on meanwhile.
import { setTimeout as sleep } from 'node:timers/promises';
import { pollMs } from '../control/change-feed.ts';
import { holdProjects } from '../control/holds.ts';
import { errors } from '../errors/errors.ts';
import { isCatalogConflict } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import { isDirect } from '../quotas/direct/direct-sessions-sql.ts';
import { databaseOf, dumpRoleOf } from '../servers/databases/names.ts';
import { isInUse } from '../servers/databases/swap-databases.ts';
import type { ServerBranchDeps } from './deps.ts';

type Options = {
  /** Runs before requests wait. */
  prepare?: () => Promise<void>;
  /** What is refused in the end, for the message: "branched". */
  done: string;
};

/** All attempts together, each attempt, and the time between two: requests that wait are served then. */
const [patienceMs, attemptMs, betweenMs] = [15_000, 1_000, 500];
/** Other processes hear of the announcement with their next poll. */
const announceMs = pollMs + 100;
const lookMs = 4;
/** For sessions over the network that have the name of the service's own: some are, others only say so. */
const graceMs = 500;

export async function whilePaused<T>(
  { control, server, gate }: Pick<ServerBranchDeps, 'control' | 'server' | 'gate'>,
  projectIds: readonly string[],
  { prepare = async () => {}, done }: Options,
  /** `closedAt`: since when requests wait, as `performance.now()` has it. */
  act: (closedAt: number) => Promise<T>,
): Promise<T> {
  let closedAt = 0;
  const look = () => findSessions(server, projectIds, performance.now() - closedAt > graceMs);
  const hold = holdProjects(control, projectIds);
  const until = performance.now() + patienceMs;
  let opened: (() => void)[] = [];
  const open = () => {
    for (const openGate of opened.splice(0)) openGate();
  };
  await hold.announce();
  try {
    await Promise.all([prepare(), sleep(announceMs)]);
    for (;;) {
      await hold.close();
      opened = projectIds.map((id) => gate.close(id));
      closedAt = performance.now();
      const blocker = await waitForSessions(look, performance.now() + attemptMs);
      if (!blocker) {
        try {
          return await endingDirect(look, () => act(closedAt));
        } catch (error) {
          const isMomentary = isInUse(error) || isCatalogConflict(error);
          if (!isMomentary || performance.now() > until) throw error;
        }
      }
      open();
      await hold.reopen();
      if (blocker && performance.now() > until) throw inUse(blocker, done);
      await sleep(betweenMs);
    }
  } finally {
    open();
    // A hold that cannot be ended ends by itself.
    await hold.end().catch(() => {});
  }
}

type Blocker = { pid: number; isDirect: boolean; isDump: boolean; seconds: number; query: string };
type Look = () => Promise<Blocker[]>;

/** Ends direct sessions, and waits for those of the service. Returns the oldest one that is still there. */
async function waitForSessions(look: Look, until: number): Promise<Blocker | null> {
  for (;;) {
    const found = await look();
    if (found.length === 0) return null;
    const own = found.find((session) => !session.isDirect);
    if (performance.now() > until) return own ?? (found[0] as Blocker);
    await sleep(lookMs);
  }
}

/** A direct login between two looks would make PostgreSQL wait, 100 ms each time. */
async function endingDirect<T>(look: Look, act: () => Promise<T>): Promise<T> {
  const done = new AbortController();
  const ending = (async () => {
    while (!done.signal.aborted) {
      await look().catch(() => {});
      await sleep(lookMs * 5, null, { signal: done.signal }).catch(() => {});
    }
  })();
  try {
    return await act();
  } finally {
    done.abort();
    await ending;
  }
}

/** Those of the service, and direct ones, which are ended by this. The longest running first. */
async function findSessions(
  server: ServerBranchDeps['server'],
  projectIds: readonly string[],
  isGraceOver: boolean,
): Promise<Blocker[]> {
  const dumpRoles = projectIds.map(dumpRoleOf);
  return server.maintenance.query<Blocker>(sql`
    select *, case when "isDirect" then pg_terminate_backend(pid) end as ended
    from (
      select pid, usename = any (${dumpRoles}::name[]) as "isDump",
             ${sql.script(isDirect(server))} and usename <> all (${dumpRoles}::name[]) and usename <> current_user
               and (${isGraceOver} or application_name not in ('rowhouse', 'rowhouse query')) as "isDirect",
             extract(epoch from clock_timestamp() - coalesce(xact_start, state_change))::float8 as seconds,
             left(query, 200) as query
      from pg_stat_activity as session
      where datname = any (${projectIds.map(databaseOf)}::name[]) and backend_type = 'client backend'
    ) as found
    order by seconds desc nulls last`);
}

function inUse({ isDump, seconds, query }: Blocker, done: string) {
  if (isDump)
    return errors.projectInUse(`An export of this project is running, so it cannot be ${done} now.`, {});
  const running_ms = Math.round(seconds * 1000);
  return errors.projectInUse(
    `A statement of this project has been running for ${Math.round(seconds)} s, so it cannot be ${done} now.`,
    { running_ms, query },
  );
}
