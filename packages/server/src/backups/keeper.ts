// What the elected process does for one server: streams WAL, takes backups when they are due, prunes. Failures are reported when they
// begin and when they end, and retried without end: storage that comes back needs no operator.

import { pause } from '../lib/pause.ts';
import type { Server } from '../servers/server.ts';
import { pruneEveryMs, walEveryMs } from '../settings/limits/backups.ts';
import type { Backups } from './backups.ts';
import { openNotices, type TellOperators } from './notices.ts';
import type { ProblemName } from './problem.ts';
import { openReporter } from './reporter.ts';
import type { DamagedBackup } from './repository/descriptions.ts';
import type { BackupDescription } from './repository/repository.ts';
import { isAbsent } from './storage/storage.ts';
import { dueBackup } from './take/schedule.ts';
import { dropSlot, findSlot, slotName } from './wal/slot.ts';
import { receiveWal } from './wal/wal-receiver.ts';

export type Log = Record<'info' | 'warn' | 'error', (details: object, message: string) => void>;
type Deps = {
  backups: Backups;
  server: Server;
  now: () => number;
  tell?: TellOperators;
  /** While a further server does not answer, which is reported by the fleet, its failures are not. */
  isAway?: () => boolean;
};

export type BackupKeeper = {
  run(ended: AbortSignal): Promise<void>;
  /** Attempts that failed since the start. */
  failures(): { wal: number; backup: number };
  /** When all backups were last read back without a problem. null: never. */
  lastVerifiedAt(): Promise<number | null>;
  /** When the last usable backup ended. null: there is none. */
  lastBackupAt(): Promise<number | null>;
  /** Backups that cannot be restored, because their descriptions cannot be read. */
  damaged(): number;
  /** The storage is not the repository any more: a disk that is not mounted, or another repository. */
  isRepositoryMissing(): boolean;
  /** NaN while another process stores WAL. */
  lag(): Promise<{ bytes: number; seconds: number }>;
};

const [firstPauseMs, longestPauseMs] = [1_000, 10_000];
const scheduleEveryMs = 30_000;
const [firstBackupPauseMs, longestBackupPauseMs] = [60_000, 60 * 60_000];
const listEveryMs = 10 * 60_000;

export function openBackupKeeper(
  { backups, server, now, tell = () => {}, isAway = () => false }: Deps,
  log: Log,
): BackupKeeper {
  const { maintenance, address } = server;
  /** What a log line says about the server and its backups. */
  const which = { server: server.name, place: backups.place };
  const { slot, options } = backups;
  const failures = { wal: 0, backup: 0 };
  let lastBackupAt: number | null = null;
  /** How often something was stored or confirmed, and when everything was. */
  let confirmations = 0;
  let caughtUpAt = now();
  /** Runs that have not ended. After a lost lease, the next one can begin before the last one ends. */
  let runs = 0;
  /** Ids of backups whose descriptions cannot be read. */
  let damaged: ReadonlySet<string> = new Set();
  /** null: to be listed. */
  let usable: BackupDescription[] | null = null;
  let listedAt = 0;
  /** Ends the pause before the next look at the schedule. */
  let checkSchedule = () => {};

  const receive = async (ended: AbortSignal): Promise<void> => {
    const { wasLost } = await backups.prepareSlot();
    if (wasLost) {
      usable = null;
      checkSchedule();
    }
    const { segmentBytes } = await backups.position();
    await receiveWal({
      repository: await backups.repository(),
      address,
      maintenance,
      slot,
      segmentBytes,
      everyMs: walEveryMs[options.location.kind],
      signal: ended,
      onStored: (lsn, flushed) => {
        confirmations++;
        if (lsn >= flushed) caughtUpAt = now();
        walFailure.ended();
      },
    });
  };

  /** For other processes. A control database that cannot be written to has more to say than this. */
  const record = (name: ProblemName) => {
    let recording = Promise.resolve();
    return (error: unknown) => {
      recording = recording.then(() => backups.recordProblem(name, error)).catch(() => {});
    };
  };
  const notices = openNotices(server.name, tell, now);
  const recordWal = record('wal_problem');
  const walFailure = openReporter({
    begin: (error) => {
      log.error({ err: error, ...which }, 'WAL cannot be stored; PostgreSQL keeps it and storing is retried');
      // Base backups have the same storage: it is looked at now, not at the next time.
      checkSchedule();
    },
    end: () => {
      log.info(which, 'WAL is stored again');
      usable = null;
      checkSchedule();
    },
    record: (error) => {
      recordWal(error);
      notices.record(error);
    },
  });
  const backupFailure = openReporter({
    begin: (error) => {
      log.error({ err: error, ...which }, 'A BACKUP FAILED; retrying');
    },
    end: () => log.info(which, 'backups are taken again'),
    record: record('backup_problem'),
  });

  const walLoop = async (ended: AbortSignal): Promise<void> => {
    for (let pauseMs = firstPauseMs; !ended.aborted; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
      const before = confirmations;
      await receive(ended).catch((error: unknown) => {
        if (ended.aborted || isAway()) return;
        failures.wal++;
        walFailure.failed(error);
      });
      if (confirmations > before) pauseMs = firstPauseMs;
      await pause(pauseMs, ended);
    }
  };

  /** Each once when it is found, and all again after a restart. */
  const reportDamaged = (found: readonly DamagedBackup[]): void => {
    for (const { id, problem } of found) {
      if (damaged.has(id)) continue;
      log.error({ id, problem, ...which }, 'A BACKUP IS DAMAGED and cannot be restored');
    }
    damaged = new Set(found.map(({ id }) => id));
  };

  const takeIfDue = async (ended: AbortSignal): Promise<void> => {
    // At every look, not only when a backup is due: WAL after the creation of a tablespace cannot be replayed elsewhere.
    await backups.checkServer();
    await backups.checkRepository();
    const { lsn } = await backups.position();
    // Listing all WAL of a week takes many requests to S3. Only this process could notice a gap in it.
    if (!usable || now() - listedAt >= listEveryMs || dueBackup(usable, lsn, now())) {
      const at = now();
      const found = await backups.look();
      [usable, listedAt] = [found.usable, at];
      reportDamaged(found.damaged);
    }
    lastBackupAt = Date.parse(usable.at(-1)?.ended_at ?? '') || null;
    const due = dueBackup(usable, lsn, now());
    if (!due) return;
    usable = null;
    const startedAt = performance.now();
    const backup = await backups.take(due, { signal: ended, progress: () => {} });
    lastBackupAt = Date.parse(backup.ended_at);
    const storedMb = Math.round(backup.parts.reduce((sum, part) => sum + part.stored_bytes, 0) / 1024 ** 2);
    const seconds = Math.round((performance.now() - startedAt) / 1000);
    const { id, kind } = backup;
    log.info({ server: server.name, id, kind, stored_mb: storedMb, seconds }, 'backup taken');
  };

  const rest = async (ms: number, ended: AbortSignal) => {
    const woken = new AbortController();
    checkSchedule = () => woken.abort();
    await pause(ms, woken.signal, ended);
  };

  const scheduleLoop = async (ended: AbortSignal): Promise<void> => {
    let failedPauseMs = firstBackupPauseMs;
    // Apart from the backups, each of which is complete whether or not older ones can be removed.
    let prunedAt = now();
    const pruneIfDue = async () => {
      if (ended.aborted || now() - prunedAt < pruneEveryMs) return;
      await backups.prune(ended);
      prunedAt = now();
    };
    while (!ended.aborted) {
      try {
        // Also if the backup fails: storage that is full gets space again only by pruning.
        await takeIfDue(ended).finally(pruneIfDue);
        backupFailure.ended();
        failedPauseMs = firstBackupPauseMs;
        await rest(scheduleEveryMs, ended);
      } catch (error) {
        if (ended.aborted) return;
        if (isAway()) {
          await rest(scheduleEveryMs, ended);
          continue;
        }
        failures.backup++;
        backupFailure.failed(error);
        await rest(failedPauseMs, ended);
        failedPauseMs = Math.min(failedPauseMs * 2, longestBackupPauseMs);
      }
    }
  };

  return {
    run: async (ended) => {
      caughtUpAt = now();
      walFailure.forget();
      backupFailure.forget();
      runs++;
      await Promise.all([walLoop(ended), scheduleLoop(ended)]).finally(() => {
        runs--;
        notices.stop();
      });
    },
    failures: () => failures,
    lastBackupAt: async () => {
      if (runs === 0) return null;
      // Another process may have taken one since the last list, which is up to ten minutes old.
      const taken = await backups.lastTakenAt();
      return taken !== null && taken > listedAt ? taken : lastBackupAt;
    },
    lastVerifiedAt: async () => Date.parse((await backups.lastVerifiedAt()) ?? '') || null,
    damaged: () => damaged.size,
    isRepositoryMissing: () => runs > 0 && [walFailure, backupFailure].some(({ last }) => isAbsent(last())),
    lag: async () => {
      if (runs === 0) return { bytes: Number.NaN, seconds: Number.NaN };
      const bytes = (await findSlot(maintenance, slot))?.lagBytes ?? Number.NaN;
      return { bytes, seconds: bytes === 0 ? 0 : Math.max(0, (now() - caughtUpAt) / 1000) };
    },
  };
}

/** Backups are off: the slot of an earlier start would keep WAL for nothing. */
export async function forgetBackups({
  maintenance,
  installation,
}: Pick<Server, 'maintenance' | 'installation'>): Promise<void> {
  await dropSlot(maintenance, slotName(installation));
}
