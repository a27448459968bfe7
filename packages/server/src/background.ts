// The background work, done by one process at a time: reconciliation, sizes, spares, upgrades, direct sessions, cleanup.

import { type BackupKeeper, forgetBackups } from './backups/keeper.ts';
import type { Drills } from './backups/restore/drills.ts';
import { settleSwaps } from './branches/swap.ts';
import type { Control } from './control/control.ts';
import { endLockHogs } from './engine/lock-hogs.ts';
import { shortenNotifyQueue } from './engine/notify-queue.ts';
import type { Server } from './engine/servers.ts';
import type { Spares } from './engine/spares.ts';
import { forgetOldIdempotencyKeys } from './idempotency.ts';
import { sql } from './postgres/sql.ts';
import { deleteExpired } from './projects/expire.ts';
import { type Discrepancies, reconcile } from './projects/reconcile.ts';
import type { Progress, Upgrades } from './projects/upgrade.ts';
import { settleLoginGates } from './quotas/direct-login-gate.ts';
import { endPauses } from './quotas/direct-pauses.ts';
import { watchDirectSessions } from './quotas/direct-sessions.ts';
import { openOverLimit } from './quotas/over-limit.ts';
import type { Reclaim } from './quotas/reclaim.ts';
import { refreshSizes, sizesSettled } from './quotas/sizes.ts';
import { forgetOldUsage, recordUsage } from './quotas/usage.ts';

type Deps = {
  control: Control;
  server: Server;
  spares: Spares;
  upgrades: Upgrades;
  reclaim: Reclaim;
  /** null: backups are off. */
  backups: BackupKeeper | null;
  /** null: backups are off, or single projects cannot be restored here. */
  drills: Drills | null;
  limits: { keepDeletedDays: number };
  now: () => number;
};
type Log = Record<'info' | 'warn' | 'error', (details: object, message: string) => void>;

export type Background = { discrepancies(): Discrepancies; stop(): Promise<void> };

const tickMs = 2_000;
const ticksBetweenReconciling = 15;
/** Between two batches: statements of callers come first. */
const shortPauseMs = 50;

/** Runs as long as the process lives; works only while it holds a lock that a single process can hold. */
export function startBackground(deps: Deps, log: Log): Background {
  const stopping = new AbortController();
  let found: Discrepancies = { projectsWithoutDatabase: [], databasesWithoutRow: [] };
  let reported = '';

  const findDiscrepancies = async () => {
    found = await reconcile(deps);
    if (JSON.stringify(found) !== reported) {
      reported = JSON.stringify(found);
      const wrong = found.projectsWithoutDatabase.length + found.databasesWithoutRow.length > 0;
      if (wrong) log.error(found, 'projects and databases do not match; see docs/operating.md');
    }
  };

  const reportedFailures = new Map<string, string>();
  let reportedNewer = 0;
  const reportProgress = ({ upgraded, failed, left, newer }: Progress) => {
    if (upgraded > 0) log.info({ upgraded, left }, 'projects upgraded');
    if (left === 0) reportedFailures.clear();
    for (const { id, error } of failed) {
      if (reportedFailures.get(id) === String(error)) continue;
      reportedFailures.set(id, String(error));
      log.error({ project: id, err: error }, 'a project cannot be upgraded; retrying');
    }
    if (newer.length > 0 && newer.length !== reportedNewer) {
      const some = newer.slice(0, 20);
      log.warn(
        { count: newer.length, projects: some },
        'a newer Rowhouse has used these projects; they are left unchanged',
      );
    }
    reportedNewer = newer.length;
  };

  const attempt = async (what: string, act: () => Promise<unknown>) => {
    await act().catch((error) => log.error({ err: error }, `${what} failed; retrying`));
  };

  const workWhileLocked = async (): Promise<void> => {
    await deps.control.session(async (session, lost) => {
      const [lock] = await session.query<{ mine: boolean }>(
        sql`select pg_try_advisory_lock(hashtext('rowhouse keeper')) as mine`,
      );
      if (!lock?.mine) return;
      const ended = AbortSignal.any([stopping.signal, lost]);
      await Promise.all([
        tidyLoop(ended),
        sizesLoop(ended),
        upgradesLoop(ended),
        directSessionsLoop(ended),
        backupsLoop(ended),
        deps.drills?.run(ended),
      ]);
    });
  };

  const tidyLoop = async (ended: AbortSignal): Promise<void> => {
    for (let tick = 0; !ended.aborted; tick++) {
      // Each step separately: a failure in one project must not prevent the other steps.
      if (tick % ticksBetweenReconciling === 0) await attempt('reconciling', findDiscrepancies);
      if (tick % ticksBetweenReconciling === 0)
        await attempt('completing resets and promotions', () => settleSwaps(deps));
      await attempt('deleting expired projects', () => deleteExpired(deps));
      await attempt('telling direct connections', () => settleLoginGates(deps));
      await attempt('letting direct connections in again', () => endPauses(deps.server, deps.now()));
      await attempt('watching locks', () => endLockHogs(deps.server));
      await attempt('watching notifications', () => shortenNotifyQueue(deps.server));
      await attempt('forgetting old answers', () => forgetOldIdempotencyKeys(deps.control, deps.now()));
      deps.spares.fill();
      await pause(tickMs, ended);
    }
  };

  /** A separate loop: dropping databases can take seconds, and sizes must not be that old. */
  const sizesLoop = async (ended: AbortSignal): Promise<void> => {
    const overLimit = openOverLimit(deps);
    while (!ended.aborted) {
      const startedAt = performance.now();
      await attempt('measuring', () => refreshSizes(deps));
      await attempt('reclaiming room', () => overLimit.reclaim());
      await attempt('noting sizes', () => recordUsage(deps));
      await attempt('forgetting old sizes', () => forgetOldUsage(deps));
      await pause(Math.max(shortPauseMs, startedAt + tickMs - performance.now()), ended);
    }
    await sizesSettled(deps.server);
  };

  /** A separate loop: a project that holds locks can make it slow. */
  const upgradesLoop = async (ended: AbortSignal): Promise<void> => {
    while (!ended.aborted) {
      let upgraded = 0;
      await attempt('bringing projects up to date', async () => {
        const progress = await deps.upgrades.next(ended);
        upgraded = progress.upgraded;
        reportProgress(progress);
      });
      await pause(upgraded > 0 ? shortPauseMs : tickMs, ended);
    }
  };

  /** A separate loop: a project can grow by megabytes in the time that the other steps take. */
  const directSessionsLoop = async (ended: AbortSignal): Promise<void> => {
    const watch = watchDirectSessions(deps, log);
    let isReported = false;
    while (!ended.aborted) {
      const startedAt = performance.now();
      await watch.run(ended).catch((error) => {
        // The next attempt follows soon, because the first clients that reconnect are not watched. While PostgreSQL is
        // unavailable, the failure is logged once.
        isReported &&= performance.now() - startedAt < tickMs;
        if (!isReported) log.error({ err: error }, 'the supervision of direct connections failed; retrying');
        isReported = true;
      });
      await pause(shortPauseMs, ended);
    }
    await watch.stop();
  };

  const backupsLoop = async (ended: AbortSignal): Promise<void> => {
    if (deps.backups) await deps.backups.run(ended);
    else await attempt('forgetting backups', () => forgetBackups(deps.server));
  };

  const run = async () => {
    while (!stopping.signal.aborted) {
      await workWhileLocked().catch((error) =>
        log.error({ err: error }, 'background work stopped; restarting'),
      );
      await pause(tickMs, stopping.signal);
    }
  };
  const running = run();

  return {
    discrepancies: () => found,
    stop: async () => {
      stopping.abort();
      await running;
    },
  };
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
    function done() {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    }
  });
}
