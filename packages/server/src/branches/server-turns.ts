// One operation on branches at a time on a server, among all processes: each copies files and forces checkpoints, which
// all projects of the server notice.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Control } from '../control/control.ts';
import { locks } from '../control/lock-names.ts';
import { ifFree, type Mutex, openMutex } from '../control/mutex.ts';
import { errors, RowhouseError } from '../errors/errors.ts';
import { sql } from '../postgres/sql.ts';
import { databaseOf } from '../servers/databases/names.ts';
import type { Server } from '../servers/server.ts';

/** Each server has its own turns. `account`: whose branch it is. null: work of the service. */
export type ServerTurns = <T>(server: Server, account: string | null, act: () => Promise<T>) => Promise<T>;

const limits = { waiting: 24, waitingPerAccount: 8 };
const maxWaitMs = 20_000;
const lookMs = 50;

export function openServerTurns(control: Control): ServerTurns {
  const mutexes = new Map<number, Mutex>();
  const mutexOf = (server: Server): Mutex => {
    const what = 'operations on branches';
    const mutex =
      mutexes.get(server.id) ?? openMutex(control, { what, lock: locks.branches(server.id), limits, lookMs });
    mutexes.set(server.id, mutex);
    return mutex;
  };

  return async (server, account, act) => {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(busy()), maxWaitMs);
    const begin = () => {
      clearTimeout(timer);
      return act();
    };
    return mutexOf(server)({ account, signal: late.signal }, begin).finally(() => clearTimeout(timer));
  };
}

/** For a job: a caller does not wait for long, but a job can. Others pause projects for up to some minutes, one after the other. */
export async function waitForTurn(
  inTurn: ServerTurns,
  { server, account }: { server: Server; account: string | null },
  signal: AbortSignal,
  act: () => Promise<void>,
): Promise<void> {
  for (const until = performance.now() + jobWaitMs; ; await sleep(jobLookMs)) {
    signal.throwIfAborted();
    let isMyTurn = false;
    const take = async () => {
      isMyTurn = true;
      await act();
    };
    try {
      return await inTurn(server, account, take);
    } catch (error) {
      const isBusy = !isMyTurn && error instanceof RowhouseError && error.code === 'overloaded';
      if (!isBusy || performance.now() > until) throw error;
    }
  }
}
const [jobWaitMs, jobLookMs] = [10 * 60_000, 1_000];

/** Runs `act` only if no operation is under way. */
export async function ifNoneRuns(
  { control, server }: { control: Control; server: Server },
  act: () => Promise<void>,
): Promise<void> {
  await ifFree(control, locks.branches(server.id), act);
}

/** Called in turn, so that no move can begin to close them. One that began before may have changed their server. */
export async function requireHere(
  { control, server }: { control: Control; server: Server },
  projectIds: readonly string[],
): Promise<void> {
  const rows = await control.query(
    sql`select from projects where id = any (${[...projectIds]}::text[]) and server_id = ${server.id}`,
  );
  const databases = await server.maintenance.query(
    sql`select from pg_database where datname = any (${projectIds.map(databaseOf)}::name[])`,
  );
  if (Math.min(rows.length, databases.length) < projectIds.length)
    throw errors.unavailable('a project is being moved, or was moved meanwhile');
  // Its rows are being replicated, by sessions in its database that PostgreSQL neither copies nor renames.
  const replicated = await control.query(
    sql`select from moves where project_id = any (${[...projectIds]}::text[]) and state in ('copying', 'undoing')`,
  );
  if (replicated.length > 0)
    throw errors.conflict(
      'The project is being moved to another server.',
      'Try again when its status is not "moving".',
    );
}

const busy = () => errors.overloaded('Other branches are being created, reset or promoted.', 5);
