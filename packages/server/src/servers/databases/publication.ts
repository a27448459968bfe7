// The source's side of logical replication, for a move without a long pause: a role with which the target logs in, the
// publication, and replica identities. The role is created first and dropped last: where it exists, something may be left.
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { errors } from '../../errors/errors.ts';
import { type Database, isState, openDatabase, type Queryable } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { scramVerifier } from '../../postgres/wire/scram.ts';
import type { Server } from '../server.ts';
import { authRoleOf, commentOf, databaseOf, replicationRoleOf, roleOf } from './names.ts';
import { dropRole } from './roles.ts';

/** A server has one list of slots for all databases. */
export const slotOf = (id: string) => `rowhouse_move_${id}`;
export const publication = 'rowhouse_move';
/**
 * These publish nothing. They list the tables that got REPLICA IDENTITY FULL, by what they had before, and commit together with
 * the change. So a crash leaves a note of it in the database itself.
 */
const notes = { d: 'rowhouse_move_default', n: 'rowhouse_move_nothing' } as const;
export const publications = [publication, ...Object.values(notes)];

export type KeylessTable = Readonly<{ name: string; before: keyof typeof notes }>;

const [lookMs, patienceMs] = [2, 10_000];
/** While ALTER TABLE waits for a lock, other statements wait behind it. */
const [lockMs, lockAttempts, betweenMs] = [100, 20, 200];
const tablesAtOnce = 200;

/** A session of the service in a database of a project. It reads catalogs, sequences, and tables of the service, never the project's. */
export function openInside(server: Pick<Server, 'address'>, database: string): Database {
  return openDatabase({ ...server.address, database }, { max: 1, searchPath: 'pg_catalog,pg_temp' });
}

/**
 * Returns the password. Nothing else knows it, so a login that succeeds has reached this very server. It is valid for longer than
 * any move takes, and ends if no process of the service is left to remove the role.
 */
export async function createReplicationRole(from: Server, id: string): Promise<string> {
  await endReplication(from, id);
  const password = randomBytes(24).toString('hex');
  const role = sql.id(replicationRoleOf(id));
  await from.maintenance.transaction(async (transaction) => {
    // One that could not be dropped is there already.
    const [found] = await transaction.query(
      sql`select from pg_roles where rolname = ${replicationRoleOf(id)}`,
    );
    const verb = found ? sql`alter` : sql`create`;
    const [clock] = await transaction.query<{ until: string }>(
      sql`select (now() + interval '3 days')::text as until`,
    );
    await transaction.query(sql`
      ${verb} role ${role} login replication bypassrls nosuperuser nocreatedb nocreaterole connection limit 20
      password ${sql.literal(scramVerifier(password))} valid until ${sql.literal(clock?.until ?? '')}`);
    await transaction.query(sql`comment on role ${role} is ${sql.literal(commentOf(from))}`);
    // The receiver looks tables up by name. One that was replaced by a view would run the view's functions.
    await transaction.query(
      sql`alter role ${role} set restrict_nonsystem_relation_kind = 'view,foreign-table'`,
    );
    // Users can own tables too.
    for (const owner of [roleOf(id), authRoleOf(id), ...from.userRoles])
      await transaction.query(sql`grant ${sql.id(owner)} to ${role} with inherit true, set false`);
    await transaction.query(sql`grant connect on database ${sql.id(databaseOf(id))} to ${role}`);
  });
  return password;
}

/**
 * Lists the tables: FOR ALL TABLES would make UPDATE fail on tables without a key, also on ones that are created later. Names
 * are quoted by PostgreSQL. Nothing here evaluates an expression of the project.
 */
export async function publish(
  inside: Database,
  { tables, keyless }: { tables: readonly string[]; keyless: readonly KeylessTable[] },
): Promise<void> {
  await unpublish(inside);
  await inside.transaction(async (transaction) => {
    await transaction.query(sql`create publication ${sql.id(publication)}`);
    for (const note of Object.values(notes))
      await transaction.query(sql`create publication ${sql.id(note)} with (publish = '')`);
  });
  for (const { name, before } of keyless)
    await withinLocks(inside, async (transaction) => {
      await transaction.query(sql.script(`alter table only ${name} replica identity full`));
      await transaction.query(sql.script(`alter publication ${notes[before]} add table only ${name}`));
    });
  for (let at = 0; at < tables.length; at += tablesAtOnce) {
    const list = tables.slice(at, at + tablesAtOnce).map((name) => `only ${name}`);
    await withinLocks(inside, (transaction) =>
      transaction.query(sql.script(`alter publication ${publication} add table ${list.join(', ')}`)),
    );
  }
}

/**
 * Undoes `publish`, and what a crash has left of it. A replica identity that the project has set itself stays. Also in a copy of
 * the database: the publications are copied with everything else.
 */
export async function unpublish(inside: Database): Promise<void> {
  // First: while it is there, a table that loses its key refuses UPDATE. It needs no lock of a table.
  await dropOwn(inside, [publication]);
  const changed = await inside.query<{ name: string; note: string }>(sql`
    select class.oid::regclass::text as name, pubname as note
    from pg_publication_rel
    join pg_publication on pg_publication.oid = prpubid
    join pg_class as class on class.oid = prrelid
    where pubname = any (${Object.values(notes)}::name[]) and pubowner = ${ownRole}
      and relreplident = 'f'`);
  for (const { name, note } of changed)
    await withinLocks(inside, async (transaction) => {
      const before = note === notes.n ? 'nothing' : 'default';
      await transaction.query(sql.script(`alter table only ${name} replica identity ${before}`));
      await transaction.query(sql.script(`alter publication ${note} drop table only ${name}`));
    });
  await dropOwn(inside, Object.values(notes));
}

/** Whether a move has changed something in the project that is still there. Looks inside only if there is a role of a move. */
export async function hasTraces(server: Server, id: string): Promise<boolean> {
  const [role] = await server.maintenance.query(
    sql`select from pg_roles where rolname = ${replicationRoleOf(id)}`,
  );
  if (!role) return false;
  const inside = openInside(server, databaseOf(id));
  const found = await findOwn(inside, publications).finally(() => inside.end());
  return found.length > 0;
}

/** A project can have a publication with such a name. It stays, and the project is moved by a dump. */
async function dropOwn(inside: Database, names: readonly string[]): Promise<void> {
  for (const { name } of await findOwn(inside, names))
    await inside.change(sql`drop publication if exists ${sql.id(name)}`);
}

function findOwn(inside: Database, names: readonly string[]): Promise<{ name: string }[]> {
  return inside.query<{ name: string }>(sql`
    select pubname as name from pg_publication
    where pubname = any (${[...names]}::name[]) and pubowner = ${ownRole}`);
}

const ownRole = sql`(select oid from pg_roles where rolname = current_user)`;

/** Tries for a few seconds: a statement of the project can hold the lock for as long as it likes. */
async function withinLocks(
  inside: Database,
  act: (transaction: Queryable) => Promise<unknown>,
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await inside.transaction(async (transaction) => {
        await transaction.query(sql.script(`set local lock_timeout = ${lockMs}`));
        await act(transaction);
      });
    } catch (error) {
      if (!isState(error, sqlstate.lockNotAvailable) || attempt === lockAttempts) throw error;
      await cancelAutovacuum(inside);
      await sleep(betweenMs);
    }
  }
}

/**
 * It gives way to a statement that has waited for deadlock_timeout, 1 s by default, and ours wait for less. PostgreSQL starts it
 * again later. Only a superuser may cancel it, and there is no online move without one.
 */
async function cancelAutovacuum(inside: Database): Promise<void> {
  await inside.query(sql`
    select pg_cancel_backend(pid) from pg_stat_activity
    where datname = current_database() and backend_type = 'autovacuum worker'`);
}

/** PostgreSQL renames no database with a session, and senders of changes are sessions. */
export async function endSenders({ maintenance }: Server, id: string): Promise<void> {
  for (const until = performance.now() + patienceMs; performance.now() < until; await sleep(lookMs)) {
    const rows = await maintenance.query(sql`
      select pg_terminate_backend(pid) from pg_stat_activity where usename = ${replicationRoleOf(id)}`);
    if (rows.length === 0) return;
  }
}

/** No login from now on, and no session. */
export async function stopReplication(from: Server, id: string): Promise<boolean> {
  const [found] = await from.maintenance.query(
    sql`select from pg_roles where rolname = ${replicationRoleOf(id)}`,
  );
  if (!found) return false;
  await from.maintenance.change(sql`alter role ${sql.id(replicationRoleOf(id))} nologin`);
  await endSenders(from, id);
  return true;
}

/** The slots, which make the server keep WAL. Those of tables that were being copied are named by the target. */
async function dropSlots({ maintenance }: Server, id: string): Promise<void> {
  await maintenance.query(sql`
    select pg_drop_replication_slot(slot_name) from pg_replication_slots
    where database in (${databaseOf(id)}, ${`${databaseOf(id)}_moving`}) and not active
      and ${ourSlots(id)}`);
  const left = await maintenance.query(sql`select from pg_replication_slots where ${ourSlots(id)}
    and database in (${databaseOf(id)}, ${`${databaseOf(id)}_moving`})`);
  // The caller tries again later, and finds the role.
  if (left.length > 0) throw errors.unavailable(`a replication slot of ${id} is in use`);
}

const ourSlots = (id: string) =>
  sql`(slot_name = ${slotOf(id)} or slot_name ~ '^pg_[0-9]+_sync_[0-9]+_[0-9]+$')`;

/**
 * Removes everything of the replication from the source. Does nothing if nothing is left. While the database accepts no
 * connections (the project is deleted), the role stays as a note, without a login; the background work looks again.
 */
export async function endReplication(from: Server, id: string): Promise<void> {
  if (!(await stopReplication(from, id))) return;
  await dropSlots(from, id);
  const databases = await from.maintenance.query<{ name: string; isOpen: boolean }>(sql`
    select datname as name, datallowconn as "isOpen" from pg_database
    where datname in (${databaseOf(id)}, ${`${databaseOf(id)}_moving`})`);
  for (const { name, isOpen } of databases) {
    if (!isOpen) return;
    const inside = openInside(from, name);
    await unpublish(inside)
      .then(() => disown(inside, id))
      .finally(() => inside.end());
  }
  await dropReplicationRole(from, id, databases);
}

/**
 * A project can grant privileges to any role, this one included, or name it in a policy, and PostgreSQL does not drop a role that
 * is named somewhere. It owns nothing: no role of a project can make it an owner.
 */
async function disown(inside: Database, id: string): Promise<void> {
  const [found] = await inside.query(sql`
    select from pg_shdepend
    where dbid = (select oid from pg_database where datname = current_database())
      and refclassid = 'pg_authid'::regclass and refobjid = ${sql.literal(replicationRoleOf(id))}::regrole limit 1`);
  if (found)
    await withinLocks(inside, (transaction) =>
      transaction.query(sql`drop owned by ${sql.id(replicationRoleOf(id))}`),
    );
}

/** Before the source is dropped, and all that is in it: PostgreSQL drops no database with a slot. */
export async function dropReplication(from: Server, id: string): Promise<void> {
  if (await stopReplication(from, id)) await dropSlots(from, id);
}

/**
 * Another project can have granted something to the role. Then the role stays, without a login, and the background work tries
 * again.
 */
async function dropReplicationRole(
  from: Server,
  id: string,
  databases: readonly { name: string }[],
): Promise<void> {
  const role = sql.id(replicationRoleOf(id));
  for (const { name } of databases)
    await from.maintenance.change(sql`revoke all on database ${sql.id(name)} from ${role}`);
  await dropRole(from, replicationRoleOf(id));
}

/** The projects of this installation that have such a role on the server. */
export async function listReplicated(server: Server): Promise<string[]> {
  const rows = await server.maintenance.query<{ id: string }>(sql`
    select substring(rolname from '^p_([a-z0-9]+)_move$') as id from pg_roles
    where rolname ~ '^p_[a-z0-9]+_move$' and shobj_description(oid, 'pg_authid') = ${commentOf(server)}`);
  return rows.map(({ id }) => id);
}

export type SlotState = Readonly<{
  /** Up to where the target has confirmed. */
  confirmed: string;
  /** What the target has not confirmed. */
  lagBytes: number;
  /** What the source keeps for the target. */
  keptBytes: number;
}>;

/** null: PostgreSQL has given the slot up, or a restart has removed it. */
export async function readSlot({ maintenance }: Server, id: string): Promise<SlotState | null> {
  const [row] = await maintenance.query<{ [K in keyof SlotState]: SlotState[K] | null }>(sql`
    select max(confirmed_flush_lsn) filter (where slot_name = ${slotOf(id)})::text as confirmed,
           max(pg_current_wal_lsn() - confirmed_flush_lsn) filter (where slot_name = ${slotOf(id)})::float8 as "lagBytes",
           max(pg_current_wal_lsn() - restart_lsn)::float8 as "keptBytes"
    from pg_replication_slots
    where database = ${databaseOf(id)} and ${ourSlots(id)} and wal_status is distinct from 'lost'`);
  const { confirmed = null, lagBytes = null, keptBytes = null } = row ?? {};
  if (confirmed === null || lagBytes === null || keptBytes === null) return null;
  return { confirmed, lagBytes, keptBytes };
}

/**
 * A sender that starts again reads the log from the slot's restart position, which advances only behind a record of the running
 * transactions. PostgreSQL writes one every 15 seconds.
 */
export async function noteSnapshot({ maintenance }: Server): Promise<void> {
  await maintenance.query(sql`select pg_log_standby_snapshot()`);
}
