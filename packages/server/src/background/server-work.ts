// The background work on one server: reconciliation, drops, sizes, spares, upgrades, direct sessions, cleanup.
import { settleSwaps } from '../branches/swap.ts';
import type { Control } from '../control/control.ts';
import { pause, within } from '../lib/pause.ts';
import { reopenStrays, settleMoves } from '../moves/settle.ts';
import { deleteExpired } from '../projects/expire.ts';
import { type Discrepancies, noteLeft, reconcile } from '../projects/reconcile.ts';
import type { Progress, Upgrades } from '../projects/upgrade.ts';
import { settleLoginGates } from '../quotas/direct/direct-login-gate.ts';
import { endPauses } from '../quotas/direct/direct-pauses.ts';
import { watchDirectSessions } from '../quotas/direct/direct-sessions.ts';
import { openOverLimit } from '../quotas/reclaiming/over-limit.ts';
import type { Reclaim } from '../quotas/reclaiming/reclaim.ts';
import { refreshSizes, sizesSettled } from '../quotas/sizes.ts';
import { openDrops } from '../servers/databases/drops.ts';
import { isEmbedded } from '../servers/embedded/embedded.ts';
import type { Fleet } from '../servers/fleet.ts';
import { openAutovacuum } from '../servers/guards/autovacuum.ts';
import { endLeftSessions } from '../servers/guards/left-sessions.ts';
import { endLockHogs } from '../servers/guards/lock-hogs.ts';
import { shortenNotifyQueue } from '../servers/guards/notify-queue.ts';
import type { Terminations } from '../servers/guards/terminations.ts';
import { countUse } from '../servers/rows.ts';
import type { Server } from '../servers/server.ts';
import { restrictPublicAccess } from '../servers/template/public-access.ts';
import type { NextRound } from './pacing.ts';
import { openSteps } from './steps.ts';
import { openWhenChanged } from './when-changed.ts';

type Deps = {
  control: Control;
  servers: Fleet;
  upgrades: Upgrades;
  reclaim: Reclaim;
  terminations: Terminations;
  limits: { keepDeletedDays: number };
  now: () => number;
};
export type Log = Record<'info' | 'warn' | 'error', (details: object, message: string) => void>;

export type ServerWork = { discrepancies(): Discrepancies; stop(): Promise<void> };

/** A failure that follows so soon is not reported again. */
const sameFailureMs = 2_000;
/** How often interrupted jobs and exchanges are settled, and projects compared. */
const settleEveryMs = 30_000;
/** Reconciling compares all projects of a server: with many, it comes less often, and takes at most this part of the time. */
const reconcilingShare = 0.01;
/** While nothing is committed: for what needs no commit, such as VACUUM, or a spare that was abandoned. */
const [unchangedMs, rarelyMs] = [60_000, 5 * 60_000];
/** A session reports what it has written within 10 s, if it gets the lock for it. */
const statisticsLagMs = 20_000;
/** Between two batches: statements of callers come first. */
const shortPauseMs = 50;
/** Steps that take longer go on by themselves: what follows in the round must not wait. */
const stepMs = 10_000;
/** A server that hangs must not prevent the service from stopping. */
const stopMs = 5_000;

export function startServerWork(
  deps: Deps,
  server: Server,
  nextRound: NextRound,
  log: Log,
  until: AbortSignal,
): ServerWork {
  const stopping = new AbortController();
  const ended = AbortSignal.any([stopping.signal, until]);
  const isFirst = server === deps.servers.first;
  const here = { ...deps, server };
  let found: Discrepancies = { projectsWithoutDatabase: [], databasesWithoutRow: [] };
  let reported = '';

  /** Failures of a further server that does not answer are reported once, by the fleet. */
  const report = (error: unknown, what: string, details: object = {}) => {
    const member = deps.servers.members().find(({ row }) => row.id === server.id);
    if (isFirst || member?.isAnswering)
      log.error({ err: error, server: server.name, ...details }, `${what} failed; retrying`);
  };
  /** Returns whether it succeeded. */
  const attempt = (what: string, act: () => Promise<unknown>): Promise<boolean> =>
    act().then(
      () => true,
      (error) => {
        report(error, what);
        return false;
      },
    );

  const findDiscrepancies = async () => {
    found = await reconcile(here);
    if (JSON.stringify(found) !== reported) {
      reported = JSON.stringify(found);
      const wrong = found.projectsWithoutDatabase.length + found.databasesWithoutRow.length > 0;
      if (wrong)
        log.error(
          { ...found, server: server.name },
          'projects and databases do not match; see docs/operating.md',
        );
    }
  };

  /** Returns whether all of it succeeded. */
  const compareAll = async (): Promise<boolean> => {
    const results = [
      await attempt('reconciling', findDiscrepancies),
      await attempt('restricting public access', () => restrictPublicAccess(server.maintenance)),
      await attempt('reopening projects', () => reopenStrays(here)),
      await attempt('counting projects', () => countUse(deps.control, server.id)),
    ];
    return !results.includes(false);
  };

  const tidyLoop = async (): Promise<void> => {
    let reconcileAt = 0;
    const forComparing = openWhenChanged(server, { maxMs: rarelyMs });
    const forGates = openWhenChanged(server, { maxMs: unchangedMs });
    const forPauses = openWhenChanged(server, { maxMs: unchangedMs });
    const autovacuum = isEmbedded(server.address, server.masterKey) ? openAutovacuum(server) : null;
    let settleAt = 0;
    const { step, settled } = openSteps(stepMs, ended, (what) =>
      log.warn({ server: server.name }, `${what} takes long; the rest of the background work goes on`),
    );
    const take = (what: string, act: () => Promise<unknown>) => step(what, () => attempt(what, act));
    while (!ended.aborted) {
      // Each step separately: a failure in one project must not prevent the other steps, nor may one that hangs.
      const isDue = performance.now() >= settleAt;
      if (isDue) {
        settleAt = performance.now() + settleEveryMs;
        // Always: an exchange that a crash has interrupted is not decided before, and a project may wait for it.
        await take('completing resets and promotions', () => settleSwaps(here));
        await take('ending sessions that are left', () => endLeftSessions(here, deps.terminations));
        if (autovacuum) await take('adjusting autovacuum', () => autovacuum.adjust());
      }
      if (isDue && performance.now() >= reconcileAt) {
        const startedAt = performance.now();
        await take('comparing projects', () => forComparing(compareAll));
        reconcileAt = startedAt + (performance.now() - startedAt) / reconcilingShare;
      }
      await take('completing moves', () => settleMoves(here));
      await take('deleting expired projects', () => deleteExpired(here));
      await take('telling direct connections', () => forGates(() => settleLoginGates(here)));
      await take('letting direct connections in again', () => forPauses(() => endPauses(server, deps.now())));
      await take('watching locks', () => endLockHogs(server));
      await take('watching notifications', () => shortenNotifyQueue(server));
      await take('filling spares', async () => deps.servers.sparesOf(server.id).fill());
      await nextRound(ended);
    }
    await settled();
  };

  /** A separate loop: one backend that does not react makes every DROP DATABASE of the server wait. */
  const dropsLoop = async (): Promise<void> => {
    const drops = openDrops(here, (error, id) => report(error, 'dropping a database', { project: id }));
    let noteAt = 0;
    while (!ended.aborted) {
      if (performance.now() >= noteAt) {
        noteAt = performance.now() + settleEveryMs;
        await attempt('noting what is to be dropped', () => noteLeft(here));
      }
      await attempt('dropping databases', () => drops.begin());
      await nextRound(ended);
    }
    await drops.stop();
  };

  /** A separate loop: other steps can take seconds, and sizes must not be that old. */
  const sizesLoop = async (): Promise<void> => {
    const overLimit = openOverLimit(here);
    const forMeasuring = openWhenChanged(server, { lagMs: statisticsLagMs, maxMs: unchangedMs });
    const measureAll = async () => (await refreshSizes(here)) === 0;
    while (!ended.aborted) {
      const startedAt = performance.now();
      await attempt('measuring', () => forMeasuring(measureAll));
      await attempt('reclaiming room', () => overLimit.reclaim());
      await nextRound(ended, performance.now() - startedAt);
    }
    await sizesSettled(server);
  };

  const reportProgress = openProgressReport(log);
  /** A separate loop: a project that holds locks can make it slow. */
  const upgradesLoop = async (): Promise<void> => {
    while (!ended.aborted) {
      let upgraded = 0;
      await attempt('bringing projects up to date', async () => {
        const progress = await deps.upgrades.next(server, ended);
        upgraded = progress.upgraded;
        reportProgress(progress);
      });
      await (upgraded > 0 ? pause(shortPauseMs, ended) : nextRound(ended));
    }
  };

  /** A separate loop: a project can grow by megabytes in the time that the other steps take. */
  const directSessionsLoop = async (): Promise<void> => {
    const watch = watchDirectSessions(here, log);
    let isReported = false;
    while (!ended.aborted) {
      const startedAt = performance.now();
      await watch.run(ended).catch((error) => {
        // The next attempt follows soon, because the first clients that reconnect are not watched. While PostgreSQL is
        // unavailable, the failure is logged once.
        isReported &&= performance.now() - startedAt < sameFailureMs;
        if (!isReported)
          log.error(
            { err: error, server: server.name },
            'the supervision of direct connections failed; retrying',
          );
        isReported = true;
      });
      await pause(shortPauseMs, ended);
    }
    await watch.stop();
  };

  const running = Promise.allSettled([
    tidyLoop(),
    dropsLoop(),
    sizesLoop(),
    upgradesLoop(),
    directSessionsLoop(),
  ]);
  running.then((ends) => {
    for (const end of ends)
      if (end.status === 'rejected')
        log.error({ err: end.reason, server: server.name }, 'background work of a server stopped');
  });

  return {
    discrepancies: () => found,
    stop: async () => {
      stopping.abort();
      await within(stopMs, running, undefined);
    },
  };
}

function openProgressReport(log: Log): (progress: Progress) => void {
  const reportedFailures = new Map<string, string>();
  let reportedNewer = 0;
  return ({ upgraded, failed, left, newer }) => {
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
}
