// A move by logical replication: rows are copied while the project is in use, and the pause lasts only until the target has the
// last of them, and what replication does not carry. replicable.ts says which projects can be moved like this.
import { setTimeout as sleep } from 'node:timers/promises';
import type { ImportSession } from '../dumps/import/import-session.ts';
import { movingDatabaseOf } from '../engine/move-database.ts';
import { databaseOf, dropProvisioned, provision } from '../engine/provision.ts';
import {
  createReplicationRole,
  endReplication,
  endSenders,
  noteSnapshot,
  openInside,
  publish,
  readSlot,
  type SlotState,
} from '../engine/publication.ts';
import type { Server } from '../engine/servers.ts';
import {
  connectionOf,
  dropSubscriptions,
  enableSubscription,
  pauseSubscription,
  readSync,
  resumeSubscription,
  seesMarker,
  subscribe,
  tryConnection,
  writeMarker,
} from '../engine/subscription.ts';
import { ExportLocked } from '../errors/dumps.ts';
import { errors, RowhouseError } from '../errors.ts';
import { type Database, isState, PostgresError } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';
import { type CopyOptions, copySchema, copySettings, openWriter } from './copy.ts';
import { fingerprint, SchemaChanged } from './fingerprint.ts';
import {
  type Contents,
  checkServersFor,
  checkWorkers,
  NotOnline,
  readContents,
  readRest,
} from './replicable.ts';
import { copyRest, copySequences } from './rest.ts';

export type Online = {
  /** Before the turn among the pauses of the source: the target has almost everything. */
  approach(): Promise<void>;
  /** In the turn, shortly before the pause: the target has almost everything still. Rejects with FellBehind. */
  ready(): Promise<void>;
  /** In the pause, before the source is closed: its senders are sessions. */
  release(): Promise<void>;
  /** The source could not be closed. */
  resume(): Promise<void>;
  /** In the pause, when the source is closed: the target gets the rest, and the subscription ends. */
  catchUp(signal: AbortSignal): Promise<void>;
  /** Ends the sessions that this holds. What is on the servers goes with the steps of the move. */
  close(): Promise<void>;
};

/** Others wait for their turn, so this one is given up. A second time, the project is moved by a dump. */
export class FellBehind extends NotOnline {}

export type Phase = 'copying tables' | 'copying rows' | 'catching up' | 'switching';
export type OnlineOptions = CopyOptions & { onPhase: (phase: Phase) => Promise<void> };

/** Behind by this much, the target needs a moment for the rest. */
const smallLagBytes = 256 * 1024;
const [lookMs, markerMs, enabledEvery] = [50, 1, 20];
/** How often the catalog is compared while rows are copied, and at most which part of the time that may take. */
const [watchMs, watchPart] = [1_000, 0.02];
/** For this long a server that restarts meanwhile may not answer. */
const awayMs = 30_000;
/**
 * How often PostgreSQL may stop the replication without having got any further in between, and in all: a function in an index of
 * the project can fail as often as it likes.
 */
const [maxRevivals, maxRevivalsInAll, revivalMs] = [10, 50, 1_000];
/** Without a row copied. A transaction that stays open on the source makes PostgreSQL wait, whichever project it is in. */
const stallMs = 60_000;
const closeMs = 1_000;
const maxMs = 12 * 60 * 60_000;
/** The source keeps its log until the target has it. The embedded server gives up a slot at this or less. */
const maxKeptBytes = 4 * 1024 * 1024 * 1024;

/** Rejects with NotOnline or SchemaChanged: `startOver` then removes what was done. */
export async function prepareOnline(options: OnlineOptions): Promise<Online> {
  const { projectId, copyId, from, to, onPhase } = options;
  await checkServersFor(from, to);
  const live = openInside(from, databaseOf(projectId));
  const copy = openInside(to, databaseOf(copyId));
  let writer: ImportSession | null = null;
  let isClosed = false;
  const close = async () => {
    if (isClosed) return;
    isClosed = true;
    writer?.close();
    // A server that hangs does not hold up what is left to do on the other.
    await Promise.race([copy.end(), sleep(closeMs, undefined, { ref: false })]);
  };
  try {
    await onPhase('copying tables');
    const password = await createReplicationRole(from, projectId).catch(explain(from));
    const connection = connectionOf(from, projectId, password);
    const address = connection(databaseOf(projectId));
    const refusal = await tryConnection(copy, projectId, address);
    if (refusal) throw new NotOnline(`${to.name} cannot connect to ${from.name} (SQLSTATE ${refusal})`);
    const { print, contents } = await copyAtOneMoment(options, live);
    await onPhase('copying rows');
    await startReplication({ ...options, live, copy }, contents, address, print);
    await checkWorkers(to, 0);
    const watch = openWatch(live, print);
    await waitForRows(options, { copy, print }, watch);
    await analyze(options);
    await onPhase('catching up');
    await waitForLag(options, { copy, print }, watch);
    return {
      approach: () => waitForLag(options, { copy, print }, unwatched),
      ready: async () => {
        await checkUnchanged(from, projectId, print);
        await shortenRestart(options, { copy, print });
        // Logged in before the pause, and not before the turn, which can be minutes away.
        writer = await openWriter(options);
      },
      release: async () => {
        await pauseSubscription(to, { copy, database: databaseOf(copyId) }, projectId);
        await endSenders(from, projectId);
      },
      resume: () => resumeSubscription(copy, projectId, address),
      catchUp: async (signal) => {
        if (!writer) throw new Error('A move has to be ready before it catches up.');
        await catchUp({ ...options, signal }, { copy, writer, print, connection }).finally(close);
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  } finally {
    // The pause waits for every session of the source.
    await live.end();
  }
}

/**
 * The tables, and what they are compared with later, are of the same moment: a change that is made and taken back while they are
 * copied could not be noticed otherwise.
 */
async function copyAtOneMoment(
  options: OnlineOptions,
  live: Database,
): Promise<{ print: string; contents: Contents }> {
  let print = '';
  try {
    return await live.transaction(async (moment) => {
      await moment.query(sql.script('set transaction isolation level repeatable read, read only'));
      print = await fingerprint(moment);
      const contents = await readContents(moment);
      const [row] = await moment.query<{ snapshot: string }>(sql`select pg_export_snapshot() as snapshot`);
      await copySchema(options, row?.snapshot ?? '');
      return { print, contents };
    });
  } catch (error) {
    if (error instanceof NotOnline || options.signal.aborted) throw error;
    // pg_dump fails if a table is dropped before it is locked.
    if (print !== '' && (await fingerprint(live)) !== print) throw new SchemaChanged();
    // A dump has the project to itself, and so no lock in its way.
    if (error instanceof ExportLocked) throw new NotOnline(lockHeld);
    throw error;
  }
}

/** Shortly before the pause, which would be for nothing otherwise. The session ends: the pause waits for every one. */
async function checkUnchanged(from: Server, projectId: string, print: string): Promise<void> {
  const inside = openInside(from, databaseOf(projectId));
  const now = await fingerprint(inside).finally(() => inside.end());
  if (now !== print) throw new SchemaChanged();
}

/** Removes what an attempt has left, so that the copy can be filled again. */
export async function startOver({ projectId, copyId, from, to }: CopyOptions): Promise<void> {
  await dropSubscriptions(to, databaseOf(copyId));
  await endReplication(from, projectId).catch((error) => {
    if (!isState(error, sqlstate.lockNotAvailable)) throw error;
    throw errors.conflict(
      'A statement of the project holds a lock on a table, so the project cannot be moved now.',
      'Start the move again when the statement has ended.',
    );
  });
  await dropProvisioned(to, copyId);
  await provision(to, copyId);
}

async function startReplication(
  { projectId, from, live, copy }: OnlineOptions & { live: Database; copy: Database },
  contents: Contents,
  address: string,
  print: string,
): Promise<void> {
  try {
    await publish(live, contents);
    // A table that lost its key a moment ago would refuse UPDATE while it is published.
    if ((await fingerprint(live)) !== print) throw new SchemaChanged();
    await subscribe(copy, projectId, address);
  } catch (error) {
    if (!(error instanceof PostgresError)) throw error;
    if ((await fingerprint(live)) !== print) throw new SchemaChanged();
    explain(from)(error);
  }
}

const stopped = 'replication has stopped with an error';
const lockHeld = 'a statement of the project holds a lock on a table';

function explain({ name }: Server) {
  return (error: unknown): never => {
    if (!(error instanceof PostgresError)) throw error;
    if (error.sqlstate === sqlstate.lockNotAvailable) throw new NotOnline(lockHeld);
    if (error.sqlstate === sqlstate.queryCanceled)
      throw new NotOnline(`a transaction on ${name} has been open for too long`);
    throw new NotOnline(`replication cannot begin (SQLSTATE ${error.sqlstate})`);
  };
}

type Watch = () => Promise<void>;

/** A table that loses its key refuses UPDATE while it is published, so a change is noticed soon. */
function openWatch(live: Database, print: string): Watch {
  let next = performance.now() + watchMs;
  return async () => {
    const now = performance.now();
    if (now < next) return;
    if ((await fingerprint(live)) !== print) throw new SchemaChanged();
    const took = performance.now() - now;
    next = performance.now() + Math.max(watchMs, took / watchPart);
  };
}

/** The copy, and the fingerprint of what was copied. */
type Followed = Readonly<{ copy: Database; print: string }>;

async function waitForRows(options: OnlineOptions, { copy, print }: Followed, watch: Watch): Promise<void> {
  const { projectId, progress } = options;
  const stalled = openStall();
  const revive = openRevival(options, { copy, print });
  await waitFor(options, watch, async () => {
    const { done, all, copiedBytes, isEnabled } = await readSync(copy, projectId);
    progress(0.3 + 0.5 * (done / Math.max(1, all)));
    if (!isEnabled) await revive(String(done));
    if (stalled(`${done} ${copiedBytes}`))
      throw new NotOnline(
        'no rows were copied for a minute, perhaps because a transaction has been open for long',
      );
    return done === all;
  });
}

/** As the role of the project: PostgreSQL runs the functions of its indexes. */
async function analyze(options: CopyOptions): Promise<void> {
  const session = await openWriter(options);
  await session.run('analyze').finally(() => session.close());
}

/**
 * A subscription that has met an error is disabled, and one that cannot connect tries for ever: neither shows in the slot, except
 * that its position stays where it is.
 */
async function waitForLag(options: OnlineOptions, followed: Followed, watch: Watch): Promise<void> {
  const stalled = openStall();
  const revive = openRevival(options, followed);
  let look = 0;
  /** Where it was when it was enabled again. It can fail at once for the same reason, whatever the lag. */
  let revivedAt: string | null = null;
  await waitFor(options, watch, async ({ confirmed, lagBytes }) => {
    const isDue = look % enabledEvery === 0;
    const isDisabled = isDue && !(await readSync(followed.copy, options.projectId)).isEnabled;
    // Only now: if the other server did not answer, the next look asks it again.
    look++;
    if (isDisabled) {
      [look, revivedAt] = [0, confirmed];
      await revive(confirmed);
      // It takes a moment to fail again: the next time it is looked at is a full round later.
      look++;
      return false;
    }
    if (isDue || confirmed !== revivedAt) revivedAt = null;
    if (lagBytes < smallLagBytes && revivedAt === null) return true;
    if (stalled(confirmed)) throw new NotOnline('the other server received nothing for a minute');
    return false;
  });
}

/** Tells whether the same was given for too long. */
function openStall(): (now: string) => boolean {
  let [seen, since] = ['', performance.now()];
  return (now) => {
    if (now !== seen) since = performance.now();
    seen = now;
    return performance.now() - since > stallMs;
  };
}

/**
 * PostgreSQL disables a subscription after any error, and a connection that breaks is one. Nothing tells them apart, so it is
 * enabled again, unless it gets no further. The target cannot apply a row of a table that has another column by now, such as when
 * one was added.
 */
function openRevival(
  { from, projectId, signal }: OnlineOptions,
  { copy, print }: Followed,
): (position: string) => Promise<void> {
  let [last, attempts, inAll] = ['', 0, 0];
  return async (position) => {
    await checkUnchanged(from, projectId, print);
    if (position !== last) attempts = 0;
    last = position;
    if (++attempts > maxRevivals || ++inAll > maxRevivalsInAll) throw new NotOnline(stopped);
    await sleep(revivalMs, undefined, { signal });
    await enableSubscription(copy, projectId);
  };
}

/** In the pause, the sender starts again and reads the log from where the slot keeps it. */
async function shortenRestart(options: OnlineOptions, followed: Followed): Promise<void> {
  const { from, to, signal } = options;
  const late = AbortSignal.timeout(readyMs);
  const bounded = { ...options, signal: AbortSignal.any([signal, late]) };
  try {
    await waitForLag(bounded, followed, unwatched);
    await noteSnapshot(from);
    // If others write much more than this, the pause is a little longer.
    const until = performance.now() + restartMs;
    const isShort = async ({ keptBytes }: SlotState) =>
      keptBytes < smallKeptBytes || performance.now() > until;
    await waitFor(bounded, unwatched, isShort);
    await waitForLag(bounded, followed, unwatched);
  } catch (error) {
    if (!late.aborted || signal.aborted || error instanceof NotOnline || error instanceof SchemaChanged)
      throw error;
    throw new FellBehind(`${to.name} did not keep up with what is written on ${from.name}`);
  }
}
const [smallKeptBytes, restartMs, readyMs] = [2 * 1024 * 1024, 2_000, 30_000];

/** The session that compares catalogs has ended by then: the pause waits for every session of the source. */
const unwatched = async () => {};

async function waitFor(
  { projectId, from, to, signal }: OnlineOptions,
  watch: Watch,
  isReached: (slot: SlotState) => Promise<boolean>,
): Promise<void> {
  const until = performance.now() + maxMs;
  for (let answeredAt = performance.now(); ; await sleep(lookMs)) {
    signal.throwIfAborted();
    let slot: SlotState | null;
    try {
      slot = await readSlot(from, projectId);
      await watch();
      if (slot && (await isReached(slot))) return;
    } catch (error) {
      if (!isAway(error) || performance.now() - answeredAt > awayMs) throw error;
      continue;
    }
    answeredAt = performance.now();
    if (!slot) throw new NotOnline(`${from.name} has given up the replication slot`);
    if (slot.keptBytes > maxKeptBytes || performance.now() > until)
      throw new NotOnline(`${to.name} did not keep up with what is written on ${from.name}`);
  }
}

/** A server that restarts, or a connection that broke. */
function isAway(error: unknown): boolean {
  return error instanceof RowhouseError && (error.code === 'unavailable' || error.code === 'outcome_unknown');
}

type Following = {
  copy: Database;
  writer: ImportSession;
  print: string;
  connection: (database: string) => string;
};

async function catchUp(
  options: OnlineOptions,
  { copy, writer, print, connection }: Following,
): Promise<void> {
  const { projectId, copyId, from, to } = options;
  const closed = openInside(from, movingDatabaseOf(projectId));
  try {
    const moving = connection(movingDatabaseOf(projectId));
    const [, marker] = await settled([
      resumeSubscription(copy, projectId, moving),
      writeMarker(closed, projectId),
    ]);
    const read = async () => {
      if ((await fingerprint(closed)) !== print) throw new SchemaChanged();
      const found = await readRest(closed);
      await copySequences(closed, writer);
      return found;
    };
    const [rest] = await settled([read(), waitForMarker(options, copy, marker), copySettings(options)]);
    await settled([copyRest(options, rest), dropSubscriptions(to, databaseOf(copyId), copy)]);
  } finally {
    // Nothing waits for its end: the source is opened again or dropped, and its sessions are ended first.
    closed.end().catch(() => {});
  }
}

async function waitForMarker(
  { projectId, signal }: CopyOptions,
  copy: Database,
  marker: Buffer,
): Promise<void> {
  for (let look = 1; !(await seesMarker(copy, marker)); look++) {
    signal.throwIfAborted();
    if (look % enabledEvery === 0 && !(await readSync(copy, projectId)).isEnabled)
      throw new NotOnline(stopped);
    await sleep(markerMs);
  }
}

/** All end before the next step begins, also if one fails. */
async function settled<T extends readonly unknown[]>(work: { [K in keyof T]: Promise<T[K]> }): Promise<T> {
  await Promise.allSettled(work);
  return Promise.all(work) as unknown as Promise<T>;
}
