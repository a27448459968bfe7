// The background work, done by one process at a time: what the whole installation needs once, and for each server the loops
// of server-work.ts. Each server has loops of its own, so that one that hangs does not hold up the others.

import { dropDeletedAccounts } from '../access/accounts/accounts.ts';
import { forgetOldActing } from '../access/end-users/act-as.ts';
import { forgetUsedChallenges } from '../access/people/challenges.ts';
import { forgetOldInvitations } from '../access/people/invitations.ts';
import { forgetEndedSessions } from '../access/people/sessions.ts';
import { forgetOldAttempts } from '../access/people/sign-in-attempts.ts';
import type { Drills } from '../backups/check/drills.ts';
import type { FleetKeeper } from '../backups/fleet-keeper.ts';
import { forgetBackups } from '../backups/keeper.ts';
import { forgetOldAudit } from '../control/audit-log.ts';
import { forgetOldChanges } from '../control/change-feed.ts';
import type { Control } from '../control/control.ts';
import { holdLease } from '../control/lease.ts';
import { locks } from '../control/lock-names.ts';
import { forgetOldHistory } from '../control/saved/history.ts';
import { openOrphans } from '../jobs/abandoned.ts';
import { forgetOldIdempotencyKeys } from '../jobs/idempotency.ts';
import { forgetEndedKeys } from '../keys/manage.ts';
import { pause } from '../lib/pause.ts';
import type { Discrepancies } from '../projects/reconcile.ts';
import type { Upgrades } from '../projects/upgrade.ts';
import type { Reclaim } from '../quotas/reclaiming/reclaim.ts';
import { forgetOldUsage, recordUsage } from '../quotas/usage.ts';
import type { Fleet } from '../servers/fleet.ts';
import type { Terminations } from '../servers/guards/terminations.ts';
import type { Server } from '../servers/server.ts';
import { openPacing } from './pacing.ts';
import { type Log, type ServerWork, startServerWork } from './server-work.ts';

type Deps = {
  control: Control;
  servers: Fleet;
  upgrades: Upgrades;
  reclaim: Reclaim;
  terminations: Terminations;
  /** null: backups are off. */
  backups: FleetKeeper | null;
  /** null: backups are off, or single projects cannot be restored here. */
  drills: Drills | null;
  limits: { keepDeletedDays: number; auditDays?: number };
  now: () => number;
};

export type Background = { discrepancies(): Discrepancies; stop(): Promise<void> };

const tickMs = 2_000;
/** After the connection was lost. Another process may be the one that works then. */
const againMs = 300;
const forgetEveryMs = 30_000;
/** While jobs run. */
const orphansMs = 1_000;
const defaultAuditDays = 365;
/** How soon a server that was opened later gets its loops. */
const lookMs = 2_000;

/** Runs as long as the process lives; works only while it holds a lock that a single process can hold. */
export function startBackground(deps: Deps, log: Log): Background {
  const stopping = new AbortController();
  const works = new Map<Server, ServerWork>();
  const nextRound = openPacing(deps.servers.first);

  const attempt = async (what: string, act: () => Promise<unknown>) => {
    await act().catch((error) => log.error({ err: error }, `${what} failed; retrying`));
  };

  const workWhileLocked = (): Promise<void> =>
    holdLease(deps.control, locks.keeper, stopping.signal, async (ended) => {
      await Promise.all([
        serversLoop(ended),
        tidyLoop(ended),
        usageLoop(ended),
        orphansLoop(ended),
        backupsLoop(ended),
        deps.drills?.run(ended),
      ]);
    });

  /** Starts the loops of servers that were reached, and ends those of servers that were removed. */
  const serversLoop = async (ended: AbortSignal): Promise<void> => {
    while (!ended.aborted) {
      const present = new Set(deps.servers.all());
      for (const server of present) {
        if (works.has(server)) continue;
        const pacing = server === deps.servers.first ? nextRound : openPacing(server);
        works.set(server, startServerWork(deps, server, pacing, log, ended));
      }
      for (const [server, work] of works) if (!present.has(server)) await endWork(server, work);
      await pause(lookMs, ended);
    }
    await Promise.all([...works].map(([server, work]) => endWork(server, work)));
  };
  const endWork = async (server: Server, work: ServerWork) => {
    works.delete(server);
    await work.stop();
  };

  const tidyLoop = async (ended: AbortSignal): Promise<void> => {
    let forgetAt = 0;
    while (!ended.aborted) {
      await attempt('forgetting old answers', () => forgetOldIdempotencyKeys(deps.control, deps.now()));
      if (performance.now() >= forgetAt) {
        forgetAt = performance.now() + forgetEveryMs;
        await attempt('forgetting old changes', () => forgetOldChanges(deps.control));
        await attempt('forgetting sessions of the console', () => forgetEndedSessions(deps));
        await attempt('forgetting old entries of the audit log', () =>
          forgetOldAudit(deps.control, deps.limits.auditDays ?? defaultAuditDays),
        );
        await attempt('forgetting sign-in attempts', () => forgetOldAttempts(deps.control));
        await attempt('forgetting old invitations', () => forgetOldInvitations(deps));
        await attempt('forgetting used challenges', () => forgetUsedChallenges(deps));
        await attempt('dropping deleted accounts', () => dropDeletedAccounts(deps));
        await attempt('forgetting old keys', () => forgetEndedKeys(deps.control));
        await attempt('forgetting old acting', () => forgetOldActing(deps.control));
        await attempt('forgetting old history', () => forgetOldHistory(deps.control));
      }
      await nextRound(ended);
    }
  };

  const usageLoop = async (ended: AbortSignal): Promise<void> => {
    while (!ended.aborted) {
      await attempt('noting sizes', () => recordUsage(deps));
      await attempt('forgetting old sizes', () => forgetOldUsage(deps));
      await nextRound(ended);
    }
  };

  /** In a loop of its own: whoever waits for a job waits for this. */
  const orphansLoop = async (ended: AbortSignal): Promise<void> => {
    const endOrphans = openOrphans(deps.control);
    while (!ended.aborted) {
      let isBusy = false;
      await attempt('ending jobs of processes that have died', async () => {
        isBusy = await endOrphans();
      });
      await (isBusy ? pause(orphansMs, ended) : nextRound(ended));
    }
  };

  const backupsLoop = async (ended: AbortSignal): Promise<void> => {
    if (deps.backups) return deps.backups.run(ended);
    const forgotten = new Set<Server>();
    while (!ended.aborted) {
      for (const server of deps.servers.all()) {
        if (forgotten.has(server)) continue;
        forgotten.add(server);
        void attempt('forgetting backups', () => forgetBackups(server));
      }
      await pause(tickMs, ended);
    }
  };

  const run = async () => {
    let isReported = false;
    while (!stopping.signal.aborted) {
      const startedAt = performance.now();
      await workWhileLocked().catch((error) => {
        // While PostgreSQL is unavailable, the failure is logged once.
        isReported &&= performance.now() - startedAt < tickMs;
        if (!isReported) log.error({ err: error }, 'background work stopped; restarting');
        isReported = true;
      });
      await pause(againMs, stopping.signal);
    }
  };
  const running = run();

  return {
    discrepancies: () => {
      const found = [...works.values()].map((work) => work.discrepancies());
      return {
        projectsWithoutDatabase: found.flatMap(({ projectsWithoutDatabase }) => projectsWithoutDatabase),
        databasesWithoutRow: found.flatMap(({ databasesWithoutRow }) => databasesWithoutRow),
      };
    },
    stop: async () => {
      stopping.abort();
      await running;
    },
  };
}
