// A server out of a backup as of a moment: lays out the files, replays the WAL in a second PostgreSQL, and hands that to
// `use`. The server is stopped at the end; its folder is the caller's.
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { errors } from '../../errors/errors.ts';
import type { Database } from '../../postgres/admin/database.ts';
import { parseLsn, segmentStart } from '../../postgres/replication/lsn.ts';
import type { Binaries } from '../../servers/embedded/binaries.ts';
import { type Capacity, readControlFile } from '../../servers/embedded/control-file.ts';
import { type RecoveryServer, startRecovery } from '../../servers/embedded/recovery-server.ts';
import type { RunAs } from '../../servers/embedded/run-as.ts';
import type { Repository } from '../repository/repository.ts';
import type { Range } from '../restorable.ts';
import { layOutFor } from './lay-out.ts';
import { amountsOf, type Plan } from './plan.ts';
import { feedWal } from './wal-feed.ts';

export type Workshop = Readonly<{
  /** For the files. Its log is beside it. */
  folder: string;
  binaries: Binaries;
  runAs: RunAs | null;
  masterKey: Buffer;
  /** The capacity of the server from which the backup was taken, as it is now. null: it is gone. */
  capacity: Capacity | null;
  /** Whether the files will be used afterwards. */
  isDurable: boolean;
  /** The superuser of a server that is not embedded. null: the embedded one. */
  superuser: string | null;
}>;

export type Recovery = {
  repository: Repository;
  plan: Plan;
  /** Oids of databases. The others are left out. null: all are needed. */
  keep: ReadonlySet<number> | null;
  /** null: everything that is stored. */
  target: Date | null;
  /** Nothing will follow what is stored: rejects with StoredEnd if there is no commit after the target. */
  isLast?: boolean;
  workshop: Workshop;
  /** Asked now and then while it replays. False: it will not lead to what is wanted, and ends with null. */
  isWorthwhile?: (database: Database) => Promise<boolean>;
  signal: AbortSignal;
  /** Rejects if there is too little space for so many bytes. */
  checkSpace: (bytes: number) => void;
  /** From 0 to 1. What it throws ends the recovery. */
  progress: (fraction: number) => void;
};

/** `lastCommit`: the last one that was replayed, of any database. */
export type Recovered = { server: RecoveryServer; lastCommit: Date | null };

/** null: databases cannot be left out: by a setting of the server that was backed up, or by `isWorthwhile`. `use` opens it. */
export async function recover<T>(
  recovery: Recovery,
  use: (recovered: Recovered) => Promise<T>,
): Promise<T | null> {
  const { repository, plan, keep, workshop, signal, progress } = recovery;
  const { folder, runAs } = workshop;
  const amounts = amountsOf(plan, keep, null);
  const total = amounts.layOutBytes + amounts.walBytes;
  // Pages of databases that are left out are in the WAL, and are written too.
  recovery.checkSpace(total);
  await layOutFor({
    repository,
    chain: plan.chain,
    keep,
    folder,
    runAs,
    signal,
    progress: (bytes) => progress(bytes / total),
  });
  if (keep && !readControlFile(folder).hasWholePages) return null;
  const ending = new AbortController();
  const either = AbortSignal.any([signal, ending.signal]);
  // Until it answers, it replays what was written during the backup.
  let replayed = parseLsn(plan.tip.end_lsn);
  let feedError: { error: unknown } | null = null;
  const feeding = feedWal({
    repository,
    timeline: plan.tip.timeline,
    segmentBytes: plan.tip.segment_bytes,
    from: plan.from,
    end: plan.end,
    runAs,
    signal: either,
    folder: path.join(folder, 'pg_wal'),
    replayed: () => replayed,
  }).catch((error: unknown) => {
    // It is the reason of all that fails after it, unless it was ended itself.
    if (!either.aborted) feedError = { error };
    ending.abort();
  });
  let server: RecoveryServer | null = null;
  try {
    const reach = (position: bigint) =>
      progress((amounts.layOutBytes + Number(position - plan.from)) / total);
    // PostgreSQL may begin at a checkpoint before `from`, and answers at the end of the backup.
    server = await start(recovery, either, (file) => {
      const position = segmentStart(file, plan.tip.segment_bytes);
      // It can need more than that before it answers: if a transaction with many savepoints was open, up to the end of it.
      if (position > replayed) replayed = position;
      if (position > plan.from) reach(position);
    });
    const lastCommit = await replay(recovery, server, feeding, either, (position) => {
      replayed = position;
      reach(position);
    });
    return await use({ server, lastCommit });
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof NotWorthwhile) return null;
    throw (feedError as { error: unknown } | null)?.error ?? error;
  } finally {
    ending.abort();
    await feeding;
    await server?.stop();
  }
}

function start(
  { workshop, target }: Recovery,
  signal: AbortSignal,
  onReplay: (file: string) => void,
): Promise<RecoveryServer> {
  const { folder, binaries, runAs, masterKey, capacity, isDurable, superuser } = workshop;
  const cluster = { folder, binaries, runAs, logFile: `${folder}.log` };
  return startRecovery({ cluster, masterKey, target, capacity, isDurable, superuser, signal, onReplay });
}

const lookMs = 50;
const askMs = 1_000;
/** Looks in a row at which it waits for WAL although all is there. It looks for more every 50 ms. */
const looksAtEnd = 5;
/** The last record can be incomplete in what is stored. If more is left, WAL is damaged. */
const maxLeftBytes = 64n * 1024n * 1024n;

/** Until the first commit after the target, or without a target to the end. Gives the last commit's time. */
async function replay(
  { plan, target, isLast, isWorthwhile }: Recovery,
  server: RecoveryServer,
  feeding: Promise<void>,
  signal: AbortSignal,
  onProgress: (position: bigint) => void,
): Promise<Date | null> {
  let isFed = false;
  void feeding.then(() => {
    isFed = true;
  });
  let askAt = performance.now() + askMs;
  for (let atEnd = 0; ; ) {
    if (isWorthwhile && performance.now() >= askAt) {
      askAt = performance.now() + askMs;
      if (!(await isWorthwhile(server.database))) throw new NotWorthwhile();
    }
    const { is, replayed, lastCommit } = await server.look();
    onProgress(replayed);
    atEnd = isFed && is === 'waiting' ? atEnd + 1 : 0;
    if (is === 'target') {
      if (target && lastCommit && lastCommit > target)
        throw errors.restoreBroken('PostgreSQL has replayed more than it was told to.');
      return lastCommit;
    }
    if (atEnd === looksAtEnd) {
      if (plan.end - replayed > maxLeftBytes)
        throw errors.restoreBroken('The stored WAL cannot be replayed up to that time.');
      if (target && isLast) throw new StoredEnd();
      if (target) throw errors.restoreOutOfRange(target, [rangeOfPlan(plan, lastCommit)]);
      return lastCommit;
    }
    await server.unlessFailed(sleep(lookMs, undefined, { signal }));
  }
}

class NotWorthwhile extends Error {}

/** Replaying without a target gives the state of the target: PostgreSQL itself does not open a server short of its target. */
export class StoredEnd extends Error {
  override readonly name = 'StoredEnd';

  constructor() {
    super('There is no commit after the wanted moment.');
  }
}

function rangeOfPlan({ chain, tip }: Plan, newest: Date | null): Range {
  return { from: new Date((chain[0] ?? tip).ended_at), to: newest ?? new Date(tip.ended_at) };
}
