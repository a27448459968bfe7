// Brings one project's database back as of a moment, in a PostgreSQL of its own beside the one that serves: lays out the
// backup, replays the WAL, and hands the database to `use`. Whatever happens, nothing of it is left.
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Binaries } from '../../engine/binaries.ts';
import { type Capacity, readControlFile } from '../../engine/control-file.ts';
import { databaseOf } from '../../engine/provision.ts';
import { type RecoveryServer, startRecovery } from '../../engine/recovery-server.ts';
import type { RunAs } from '../../engine/run-as.ts';
import { errors } from '../../errors.ts';
import { parseLsn } from '../../postgres/lsn.ts';
import { sql } from '../../postgres/sql.ts';
import type { Repository } from '../repository.ts';
import { layOutFor } from './lay-out.ts';
import { amountsOf, type Plan } from './plan.ts';
import { feedWal } from './wal-feed.ts';

export type Workshop = Readonly<{
  /** Made here, and removed at the end. */
  folder: string;
  binaries: Binaries;
  runAs: RunAs | null;
  masterKey: Buffer;
  capacity: Capacity;
}>;

type Request = {
  repository: Repository;
  plan: Plan;
  projectId: string;
  /** A branch: its database was copied from that of another project. */
  isCopy: boolean;
  target: Date;
  workshop: Workshop;
  signal: AbortSignal;
  /** Rejects if there is too little space for so many bytes. */
  checkSpace: (bytes: number) => void;
  /** Of laying out and replaying. What it throws ends the restore. */
  progress: (fraction: number) => void;
};

/** `lastCommit`: the last one before the target, of any project. */
export type Recovered = { server: RecoveryServer; lastCommit: Date | null };

export async function recoverProject<T>(
  request: Request,
  use: (recovered: Recovered) => Promise<T>,
): Promise<T> {
  const { plan, projectId, isCopy } = request;
  const isOlder = plan.tip.databases.some(({ name }) => name === databaseOf(projectId));
  // A copy that was made after the backup needs the database that it was copied from.
  if (isOlder || !isCopy) {
    const narrow = await tryWith(request, databasesToKeep(plan, projectId), use);
    if (narrow.isDone) return narrow.result;
  }
  const all = await tryWith(request, null, use);
  if (!all.isDone) throw new Error('A restore with all databases found none.');
  return all.result;
}

type Outcome<T> = { isDone: true; result: T } | { isDone: false };

async function tryWith<T>(
  request: Request,
  keep: ReadonlySet<number> | null,
  use: (recovered: Recovered) => Promise<T>,
): Promise<Outcome<T>> {
  const { repository, plan, workshop, signal, progress } = request;
  const { folder, runAs } = workshop;
  const amounts = amountsOf(plan, keep, null);
  const total = amounts.layOutBytes + amounts.walBytes;
  // Pages of other projects that the WAL contains are written too.
  request.checkSpace(total);
  await rm(folder, { recursive: true, force: true });
  const ending = new AbortController();
  const either = AbortSignal.any([signal, ending.signal]);
  let server: RecoveryServer | null = null;
  let feeding: Promise<void> = Promise.resolve();
  try {
    await layOutFor({
      ...{ repository, chain: plan.chain, keep, folder, runAs, signal },
      progress: (bytes) => progress(bytes / total),
    });
    if (keep && !readControlFile(folder).hasWholePages) return { isDone: false };
    // Until it answers, it replays what was written during the backup.
    let replayed = parseLsn(plan.tip.end_lsn);
    feeding = feedWal({
      ...{ repository, timeline: plan.tip.timeline, segmentBytes: plan.tip.segment_bytes },
      ...{ from: plan.from, end: plan.end, runAs, signal: either },
      folder: path.join(folder, 'pg_wal'),
      replayed: () => replayed,
    });
    feeding.catch(() => ending.abort());
    server = await start(request, either);
    const lastCommit = await replay(request, server, feeding, (position) => {
      replayed = position;
      progress((amounts.layOutBytes + Number(position - plan.from)) / total);
    });
    if (!(await isThere(request, server, keep))) return { isDone: false };
    await server.open();
    return { isDone: true, result: await use({ server, lastCommit }) };
  } catch (error) {
    signal.throwIfAborted();
    // What ended the feeding is the reason of everything after it.
    await feeding;
    throw error;
  } finally {
    ending.abort();
    await feeding.catch(() => {});
    await server?.stop();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    await rm(`${folder}.log`, { force: true });
  }
}

function start({ workshop, target }: Request, signal: AbortSignal): Promise<RecoveryServer> {
  const { folder, binaries, runAs, masterKey, capacity } = workshop;
  const cluster = { folder, binaries, runAs, logFile: `${folder}.log` };
  return startRecovery({ cluster, masterKey, target, capacity, signal });
}

const lookMs = 50;
/** Looks in a row at which it waits for WAL although all is there. It looks for more every 50 ms. */
const looksAtEnd = 5;

/** Until the target is reached, which is at the first commit after it. Gives the last commit's time. */
async function replay(
  { target, signal }: Request,
  server: RecoveryServer,
  feeding: Promise<void>,
  onProgress: (position: bigint) => void,
): Promise<Date | null> {
  let isFed = false;
  const fed = feeding.then(() => {
    isFed = true;
  });
  for (let atEnd = 0; ; ) {
    const state = await server.look();
    onProgress(state.replayed);
    atEnd = isFed && state.is === 'waiting' ? atEnd + 1 : 0;
    if (atEnd === looksAtEnd)
      throw errors.restoreBroken('The stored WAL cannot be replayed up to that time.');
    if (state.is === 'target') {
      if (state.lastCommit && state.lastCommit > target)
        throw errors.restoreBroken('PostgreSQL has replayed more than it was told to.');
      return state.lastCommit;
    }
    await Promise.race([
      server.failed,
      sleep(lookMs, undefined, { signal }),
      ...(isFed ? [] : [failure(fed)]),
    ]);
  }
}

/** Never fulfilled. */
function failure(promise: Promise<void>): Promise<never> {
  return promise.then(() => new Promise<never>(() => {}));
}

/**
 * Whether the project's database is there, with its contents. Exchanging databases (a promoted branch, a restore in place)
 * gives it another oid, under which the backup has another database, or none: then all databases are needed.
 */
async function isThere(
  { plan, projectId }: Request,
  { database }: RecoveryServer,
  keep: ReadonlySet<number> | null,
): Promise<boolean> {
  const name = databaseOf(projectId);
  const [row] = await database.query<{ oid: number }>(
    sql`select oid::int8::float8 as oid from pg_database where datname = ${name}`,
  );
  if (!row) throw errors.restoreNotThere();
  const before = plan.tip.databases.find((known) => known.name === name);
  const isKnown = plan.tip.databases.some(({ oid }) => oid === row.oid);
  return keep === null || (before ? before.oid === row.oid : !isKnown);
}

/** PostgreSQL's own, the templates of projects, and the project. */
export function databasesToKeep(plan: Plan, projectId: string): ReadonlySet<number> {
  const isKeptName = (name: string) =>
    /^(postgres|template[01]|rowhouse_t_.*)$/.test(name) || name === databaseOf(projectId);
  return new Set(plan.tip.databases.filter(({ name }) => isKeptName(name)).map(({ oid }) => oid));
}
