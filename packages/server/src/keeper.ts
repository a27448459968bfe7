// Background work, done by one process at a time however many there are: reconciling, sizes, spares, what is past.
import type { Control } from './control/control.ts';
import { endLockHogs } from './engine/lock-hogs.ts';
import { shortenNotifyQueue } from './engine/notify-queue.ts';
import type { Server } from './engine/servers.ts';
import type { Spares } from './engine/spares.ts';
import { sql } from './postgres/sql.ts';
import { type Discrepancies, reconcile } from './projects/reconcile.ts';
import { refreshSizes } from './quotas/sizes.ts';
import { forgetOldRepeats } from './repeats.ts';

type Deps = {
  control: Control;
  server: Server;
  spares: Spares;
  limits: { keepDeletedDays: number };
  now: () => number;
};
type Log = { info(details: object, message: string): void; error(details: object, message: string): void };

export type Keeper = { discrepancies(): Discrepancies; stop(): Promise<void> };

const tickMs = 2_000;
const ticksBetweenReconciling = 15;

/** Runs for as long as the process lives; works only while it holds the lock that one process can have. */
export function startKeeper(deps: Deps, log: Log): Keeper {
  const stopping = new AbortController();
  let found: Discrepancies = { projectsWithoutDatabase: [], databasesWithoutRow: [] };
  let told = '';

  const work = async () => {
    found = await reconcile(deps);
    if (JSON.stringify(found) !== told) {
      told = JSON.stringify(found);
      const wrong = found.projectsWithoutDatabase.length + found.databasesWithoutRow.length > 0;
      if (wrong) log.error(found, 'projects and databases do not match: see docs/operating.md');
    }
  };

  const attempt = async (what: string, act: () => Promise<unknown>) => {
    await act().catch((error) => log.error({ err: error }, `${what} failed; it is tried again`));
  };

  const keep = async (): Promise<void> => {
    await deps.control.session(async (session, lost) => {
      const [lock] = await session.query<{ mine: boolean }>(
        sql`select pg_try_advisory_lock(hashtext('rowhouse keeper')) as mine`,
      );
      if (!lock?.mine) return;
      for (let tick = 0; !stopping.signal.aborted && !lost.aborted; tick++) {
        // Each on its own: what goes wrong with one project must not keep the others from being looked after.
        if (tick % ticksBetweenReconciling === 0) await attempt('reconciling', work);
        await attempt('measuring', () => refreshSizes(deps));
        await attempt('watching locks', () => endLockHogs(deps.server));
        await attempt('watching notifications', () => shortenNotifyQueue(deps.server));
        await attempt('forgetting old answers', () => forgetOldRepeats(deps.control, deps.now()));
        deps.spares.fill();
        await pause(tickMs, stopping.signal, lost);
      }
    });
  };

  const run = async () => {
    while (!stopping.signal.aborted) {
      await keep().catch((error) => log.error({ err: error }, 'the keeper stopped; it starts again'));
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

function pause(ms: number, ...signals: AbortSignal[]): Promise<void> {
  return new Promise((resolve) => {
    const signal = AbortSignal.any(signals);
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
