// The target's side of logical replication: a subscription in the copy of a project.
//
// It belongs to the service's own role, a superuser, but no code of a project runs with its rights. With run_as_owner = false
// (PostgreSQL 16 and newer), workers become the owner of a table, in a security-restricted operation, before they copy or change
// its rows. Index expressions, defaults, checks and generated columns run as that role. Triggers that would fire are an obstacle
// to an online move (moves/replicable.ts). The connection string is readable by superusers only, and the
// statements that carry it are kept out of the log.
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Address, type Database, PostgresError, type Queryable } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { atPrimary } from '../../postgres/wire/connect.ts';
import type { Server } from '../server.ts';
import { authRoleOf, replicationRoleOf } from './names.ts';
import { openInside, publication, slotOf } from './publication.ts';

const subscriptionOf = slotOf;
const [lookMs, patienceMs] = [2, 10_000];
/** The slot begins where every transaction of the server has ended that was open when it was asked for. */
const slotMs = 20_000;

/** How the target reaches the source. */
export function connectionOf(from: Server, id: string, password: string) {
  const { host, port, tls }: Address = atPrimary(from.address);
  // The file of certificates that Node trusts is not known to the other server: its own have to do.
  const verified = { sslmode: 'verify-full', sslrootcert: 'system' };
  const unverified = { sslmode: tls ? 'require' : 'disable' };
  const secure = tls !== false && tls.rejectUnauthorized ? verified : unverified;
  return (database: string): string => {
    const login = { host, port, user: replicationRoleOf(id), password, dbname: database };
    const values = { ...login, ...secure, connect_timeout: 10 };
    return Object.entries(values)
      .map(([name, value]) => `${name}='${String(value).replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`)
      .join(' ');
  };
}

/**
 * For statements that contain the password: not in the server's log, nor in pg_stat_activity. `session`: one
 * connection. One of several would be replaced, if it broke, by one that does not know of it.
 */
async function keepOutOfLogs(session: Queryable): Promise<void> {
  await session.query(sql`
    select set_config('log_statement', 'none', false), set_config('log_min_error_statement', 'panic', false),
           set_config('log_min_duration_statement', '-1', false), set_config('track_activities', 'off', false)`);
}

/** Whether the target reaches the source, found out before anything is copied. Returns why it does not. */
export async function tryConnection(copy: Database, id: string, connection: string): Promise<string | null> {
  const name = sql.id(subscriptionOf(id));
  try {
    await copy.session(async (session) => {
      await keepOutOfLogs(session);
      await session.query(sql`
        create subscription ${name} connection ${sql.literal(connection)} publication ${sql.id(publication)}
        with (slot_name = none, create_slot = false, enabled = false, copy_data = false)`);
    });
  } catch (error) {
    // Its text can name addresses of the operator's network: the owner of the project does not see it.
    if (error instanceof PostgresError) return error.sqlstate;
    throw error;
  }
  await copy.change(sql`drop subscription ${name}`);
  return null;
}

/** Copies the tables and follows the source from there. */
export async function subscribe(copy: Database, id: string, connection: string): Promise<void> {
  await copy.session(async (session) => {
    await keepOutOfLogs(session);
    await session.query(sql.script(`set statement_timeout = ${slotMs}`));
    // origin = any: rows that the source itself has received by replication belong to the project, too.
    await session.query(sql`
      create subscription ${sql.id(subscriptionOf(id))} connection ${sql.literal(connection)}
      publication ${sql.id(publication)}
      with (slot_name = ${sql.literal(slotOf(id))}, streaming = parallel, synchronous_commit = 'off',
            disable_on_error = true, run_as_owner = false, origin = any)`);
  });
}

export type Sync = Readonly<{
  done: number;
  all: number;
  /** Changes whenever a row was copied. */
  copiedBytes: string;
  isEnabled: boolean;
}>;

export async function readSync(copy: Queryable, id: string): Promise<Sync> {
  const [row] = await copy.query<Sync>(sql`
    select count(*) filter (where srsubstate = 'r')::int as done, count(*)::int as all,
           (select coalesce(sum(bytes_processed), 0)::text from pg_stat_progress_copy
            where datname = current_database()) as "copiedBytes",
           coalesce((select subenabled from pg_subscription where subname = ${subscriptionOf(id)}), false) as "isEnabled"
    from pg_subscription_rel`);
  if (!row) throw new Error('PostgreSQL does not report the subscription.');
  return row;
}

/** How many subscriptions of a server follow a source, and how many workers there are for all. */
export async function countSubscriptions({ maintenance }: Server): Promise<{ used: number; all: number }> {
  const [row] = await maintenance.query<{ used: number; all: number }>(sql`
    select (select count(*) from pg_subscription where subenabled)::int as used,
           current_setting('max_logical_replication_workers')::int as all`);
  return row ?? { used: 0, all: 0 };
}

/**
 * First the worker, then (by the caller) its sender: a worker whose sender is gone reports an error, and an error disables the
 * subscription, perhaps after it is enabled again.
 */
export async function pauseSubscription(
  server: Server,
  { copy, database }: { copy: Database; database: string },
  id: string,
): Promise<void> {
  await copy.change(sql`alter subscription ${sql.id(subscriptionOf(id))} disable`);
  await workersGone(server, database);
}

/** The source may have another name now. */
export async function resumeSubscription(copy: Database, id: string, connection: string): Promise<void> {
  const name = sql.id(subscriptionOf(id));
  await copy.transaction(async (transaction) => {
    await keepOutOfLogs(transaction);
    await transaction.query(sql`alter subscription ${name} connection ${sql.literal(connection)}`);
    await transaction.query(sql`alter subscription ${name} enable`);
  });
}

/** Where it was connected before. */
export async function enableSubscription(copy: Database, id: string): Promise<void> {
  await copy.change(sql`alter subscription ${sql.id(subscriptionOf(id))} enable`);
}

/** Without a word to the source, which may not answer. Its slot is dropped there. */
export async function dropSubscriptions(server: Server, database: string, open?: Database): Promise<void> {
  const found = await server.maintenance.query<{ name: string }>(sql`
    select subname as name from pg_subscription
    where subdbid = (select oid from pg_database where datname = ${database})`);
  if (found.length === 0) return;
  const inside = open ?? openInside(server, database);
  try {
    for (const { name } of found) {
      const subscription = sql.id(name);
      await inside.transaction(async (transaction) => {
        await transaction.query(sql`alter subscription ${subscription} disable`);
        await transaction.query(sql`alter subscription ${subscription} set (slot_name = none)`);
        await transaction.query(sql`drop subscription ${subscription}`);
      });
    }
  } finally {
    if (!open) await inside.end();
  }
  await workersGone(server, database);
}

/** Workers of a subscription are sessions of the database too. */
async function workersGone({ maintenance }: Server, database: string): Promise<void> {
  for (const until = performance.now() + patienceMs; performance.now() < until; await sleep(lookMs)) {
    const rows = await maintenance.query(sql`
      select from pg_stat_activity where datname = ${database} and backend_type like 'logical replication%'`);
    if (rows.length === 0) return;
  }
}

/**
 * Writes a row that the target sees after everything else: waiting for it took 32–45 ms, waiting for the slot's confirmed
 * position 393–434 ms. Among the attempts to sign in: a row whose time is past means nothing, and the service removes it.
 */
export async function writeMarker(source: Database, id: string): Promise<Buffer> {
  const marker = randomBytes(32);
  await source.transaction(async (transaction) => {
    await transaction.query(sql`set local role ${sql.id(authRoleOf(id))}`);
    await transaction.query(
      sql`insert into auth.attempts (id, used_until) values (${marker}, now() - interval '1 minute')`,
    );
  });
  return marker;
}

export async function seesMarker(copy: Queryable, marker: Buffer): Promise<boolean> {
  return (await copy.query(sql`select from auth.attempts where id = ${marker}`)).length > 0;
}
