// A move by logical replication: rows are copied while the project is in use, and the pause lasts only until the target has the
// last of them, and what replication does not carry. replicable.ts says which projects can be moved like this.
import { setTimeout as sleep } from 'node:timers/promises';
import { ExportLocked } from '../errors/dumps.ts';
import { errors } from '../errors/errors.ts';
import { type Database, isState, PostgresError } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';
import { databaseOf } from '../servers/databases/names.ts';
import { dropProvisioned, provision } from '../servers/databases/provision.ts';
import {
  createReplicationRole,
  endReplication,
  endSenders,
  openInside,
  publish,
} from '../servers/databases/publication.ts';
import {
  connectionOf,
  dropSubscriptions,
  pauseSubscription,
  resumeSubscription,
  subscribe,
  tryConnection,
} from '../servers/databases/subscription.ts';
import type { Server } from '../servers/server.ts';
import type { ImportSession } from '../transfer/import/import-session.ts';
import { fingerprint, SchemaChanged } from './catalog-fingerprint.ts';
import { catchUp } from './catch-up.ts';
import { type CopyOptions, copySchema, openWriter } from './copy.ts';
import { checkUnchanged, openWatch, shortenRestart, unwatched, waitForLag, waitForRows } from './follow.ts';
import { type Contents, checkServersFor, checkWorkers, NotOnline, readContents } from './replicable.ts';

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

export type Phase = 'copying tables' | 'copying rows' | 'catching up' | 'switching';
export type OnlineOptions = CopyOptions & { onPhase: (phase: Phase) => Promise<void> };

const closeMs = 1_000;

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

/** As the role of the project: PostgreSQL runs the functions of its indexes. */
async function analyze(options: CopyOptions): Promise<void> {
  const session = await openWriter(options);
  await session.run('analyze').finally(() => session.close());
}
