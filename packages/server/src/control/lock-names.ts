// Every advisory lock of the service, with what it guards. No other file calls PostgreSQL's functions for them: a test reads all
// files.
//
// Locks of a session end with it, and with the process that holds them. They are in the database of the session that takes them:
// `control`, `template` and `swap` in the maintenance database of a server, because other installations may share that server
// or the control database does not exist yet; all others in the control database.
//
// The list is in the order in which locks are taken: whoever holds one takes only locks below it. Most are tried and not waited
// for. Those that are waited for are the first four, of which none is taken inside another, and the last two, which end with
// their transaction.
//
// The names never change: processes of two versions run side by side during an upgrade.
import type { Queryable } from '../postgres/admin/database.ts';
import { type Sql, sql } from '../postgres/sql.ts';

/** `key`: the arguments of PostgreSQL's functions. `place`: the condition by which pg_locks shows it. */
export type Lock = Readonly<{ name: string; key: Sql; place: Sql }>;

export const locks = {
  /** The creation of the control database. */
  control: lockOf('rowhouse control'),
  /** The migrations of the control database. */
  migrations: lockOf('rowhouse migrations'),
  /** A server's template and shared roles, while a start creates or completes them. */
  template: lockOf('rowhouse template'),
  /** The first keys: of several services that start at once, only one prints keys. */
  account: lockOf('rowhouse account'),
  /** Shared, by each process of the installation: whoever can take it alone is the only one (presence.ts). */
  process: lockOf('rowhouse process'),
  /** Shared, by the process of this number: its jobs are orphaned when nobody holds it (presence.ts). */
  runner: (runner: Sql) => pairOf('rowhouse runner', runner),
  /** The background work: one process does it for all (lease.ts). */
  keeper: lockOf('rowhouse keeper'),
  /** One base backup of a server at a time. The lock of the first server has the name that it had before there were others. */
  backup: ({ id, holdsControl }: { id: number; holdsControl: boolean }) =>
    lockOf(holdsControl ? 'rowhouse backup' : `rowhouse backup of ${id}`),
  /** One restore or drill at a time (mutex.ts): each needs disk, memory and a core. */
  restore: lockOf('rowhouse restore'),
  /** The export of a project, which a move waits for. */
  export: (projectId: string) => pairOf('rowhouse export', sql`hashtext(${projectId})`),
  /** The move of a project: one process works on it. */
  move: (projectId: string) => pairOf('rowhouse move', sql`hashtext(${projectId})`),
  /** One operation on branches of a server at a time (mutex.ts): each copies files and forces checkpoints. */
  branches: (serverId: number) => pairOf('rowhouse branches', sql`${serverId}::int`),
  /** The exchange of a project's database with another one. */
  swap: (projectId: string) => pairOf('rowhouse swap', sql`hashtext(${projectId})`),
  /** Changes of a project's saved queries, so that two at once neither exceed a limit nor overwrite each other unnoticed. */
  savedQueries: (projectId: string) => pairOf('saved queries', sql`hashtext(${projectId})`),
};

/** Waits for the lock, which ends with the session. */
export async function takeLock(session: Queryable, { key }: Lock): Promise<void> {
  await session.query(sql`select pg_advisory_lock(${key})`);
}

/** Waits for whoever holds the lock alone. Many sessions can share it. */
export async function shareLock(session: Queryable, { key }: Lock): Promise<void> {
  await session.query(sql`select pg_advisory_lock_shared(${key})`);
}

/** Does not wait. false: another session holds the lock. */
export async function tryLock(session: Queryable, { key }: Lock): Promise<boolean> {
  const [row] = await session.query<{ mine: boolean }>(sql`select pg_try_advisory_lock(${key}) as mine`);
  return row?.mine === true;
}

/** Waits for the lock, which ends with the transaction. */
export async function takeLockForTransaction(transaction: Queryable, { key }: Lock): Promise<void> {
  await transaction.query(sql`select pg_advisory_xact_lock(${key})`);
}

/** An expression: whether no other session holds the lock. It is given up at the end of the statement. */
export function isFree({ key }: Lock): Sql {
  return sql`pg_try_advisory_xact_lock(${key})`;
}

/** An expression: whether a session holds the lock. Only looks: to take it could make fail who takes it at this moment. */
export function isHeld({ place }: Lock): Sql {
  return sql`
    exists (
      select from pg_locks
      where locktype = 'advisory' and granted and ${place}
        and database = (select oid from pg_database where datname = current_database())
    )`;
}

function lockOf(name: string): Lock {
  const key = sql`hashtext(${sql.literal(name)})`;
  const place = sql`objsubid = 1 and (classid::bigint << 32 | objid::bigint) = ${key}::bigint`;
  return { name, key, place };
}

/** A lock for each of many things, by a number. */
function pairOf(name: string, number: Sql): Lock {
  const kind = sql`hashtext(${sql.literal(name)})`;
  const place = sql`objsubid = 2 and classid = ${kind}::oid and objid = (${number})::oid`;
  return { name, key: sql`${kind}, ${number}`, place };
}
