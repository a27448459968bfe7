// Backends that go on although they were terminated: code of PostgreSQL, or of a library in it, computes without looking for
// interrupts. LIKE, position(), translate(), @> of arrays, XPath and many others do, if their inputs are large, so none of them
// can be refused. The steps: the lowest priority at once; SIGFPE, for which PostgreSQL has a handler that raises an error
// wherever the backend computes (22P01, "floating-point exception"), so that the termination takes effect; and last of all a
// restart of PostgreSQL, as an ordinary shutdown behind a checkpoint: sessions that react roll back, and the recovery is short.
import { setTimeout as sleep } from 'node:timers/promises';
import { pause } from '../../lib/pause.ts';
import { sql } from '../../postgres/sql.ts';
import { lowerToLowest } from '../embedded/backend-priority.ts';
import { type Computing, openComputing } from '../embedded/computing.ts';
import {
  endProjectBackends,
  inspectPidFile,
  interruptBackend,
  isBackend,
  isParallelWorkerOf,
  parallelWorkersOf,
} from '../embedded/server-processes.ts';
import type { Server } from '../server.ts';

export type Survivor = Readonly<{ projectId: string; server: Server; pid: number }>;
export type Survivors = {
  /** It was terminated some seconds ago, and is terminated again and again until `gone`. */
  note(survivor: Survivor): void;
  gone(survivor: Survivor): void;
  /** Those of this process. */
  count(): number;
  stop(): void;
};

/** The embedded PostgreSQL: its cluster folder, and when it is restarted because of a statement that nothing ends (0: never). */
export type OwnPostgres = { folder: string; restartAfterMs: number };
type Log = Record<'error' | 'warn', (details: object, message: string) => void>;

const lookMs = 250;
/** With a thousand sessions, a search for parallel workers blocks this process for some 10 ms. */
const looksPerSearch = 8;
const checkpointMs = 60_000;
/** Sessions that react to a shutdown are gone by then. */
const fastShutdownMs = 1_500;

/** `first`: the server that is embedded, if `own` is given. The processes of others are not ours to signal. */
export function openSurvivors(first: Server, own: OwnPostgres | undefined, log: Log): Survivors {
  /** Not by process id: two servers can have the same one. */
  const known = new Set<Survivor>();
  const stopping = new AbortController();
  let restarting: Promise<void> | null = null;

  const isThere = (survivor: Survivor) => !stopping.signal.aborted && known.has(survivor);

  const restart = async (cluster: string, survivor: Survivor): Promise<void> => {
    if (inspectPidFile(cluster)?.kind !== 'ours') return;
    await first.maintenance.query(sql`checkpoint`, checkpointMs).catch(() => {});
    // Only now is it certain: the checkpoint can take a minute.
    const postmaster = inspectPidFile(cluster);
    if (postmaster?.kind !== 'ours' || !isThere(survivor) || !isBackend(cluster, survivor.pid)) return;
    const details = { project: survivor.projectId, backend: survivor.pid };
    log.error(details, 'PostgreSQL restarts now, because nothing else ends a statement of this project');
    process.kill(postmaster.pid, 'SIGINT');
    await sleep(fastShutdownMs);
    endProjectBackends(cluster, postmaster.pid);
  };

  const end = async ({ folder, restartAfterMs }: OwnPostgres, survivor: Survivor): Promise<void> => {
    const { pid } = survivor;
    const watched = new Map<number, Computing>();
    const restartAt = performance.now() + restartAfterMs;
    let workers: number[] = [];
    for (let looks = 0; isThere(survivor) && isBackend(folder, pid); looks++) {
      if (looks % looksPerSearch === 0) workers = parallelWorkersOf(folder, pid);
      for (const one of [pid, ...workers]) {
        if (one !== pid && !isParallelWorkerOf(folder, pid, one)) continue;
        const computing = watched.get(one) ?? openComputing(one);
        if (!watched.has(one)) lowerToLowest(one);
        watched.set(one, computing);
        if (computing.look()) interruptBackend(one);
      }
      if (restartAfterMs > 0 && performance.now() >= restartAt) {
        restarting ??= restart(folder, survivor).finally(() => {
          restarting = null;
        });
        await restarting;
      }
      await pause(lookMs, stopping.signal);
    }
  };

  return {
    note: (survivor) => {
      const { projectId, server, pid } = survivor;
      known.add(survivor);
      const details = { project: projectId, server: server.name, backend: pid };
      if (!own || server.id !== first.id || !isBackend(own.folder, pid)) {
        log.error(
          details,
          'a statement goes on although its session was terminated: while it does, no database can be dropped on this server; see docs/operating.md',
        );
        return;
      }
      log.warn(details, 'a statement goes on although its session was terminated; it is interrupted');
      end(own, survivor).catch((error) => log.error({ err: error, ...details }, 'a statement was not ended'));
    },
    gone: (survivor) => void known.delete(survivor),
    count: () => known.size,
    stop: () => stopping.abort(),
  };
}
