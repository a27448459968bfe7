// The tables of a project as an export sees them: listed and locked in one transaction that only reads. Before a dump it
// tells in SQLSTATEs what would make pg_dump fail; a CSV export goes on in the same transaction.
import { errors, RowhouseError } from '../../errors/errors.ts';
import type { Address } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { AskError, ask } from '../../postgres/wire/ask.ts';
import { RefusedError, Session } from '../../postgres/wire/session.ts';
import { startupOptions } from '../../postgres/wire/startup-options.ts';
import { dumpLockWaitMs } from '../../settings/limits/exports.ts';

export type Table = Readonly<{
  oid: string;
  schema: string;
  name: string;
  isPartitioned: boolean;
  isPartition: boolean;
  /** The oid of the topmost table, if this one is a partition. */
  root: string | null;
  /** The project's own roles may lock it against new indexes. */
  isLockable: boolean;
  /** Without those that PostgreSQL works out when they are read. */
  columns: readonly string[];
  /** Those of `columns` that are stored as they were given. COPY takes no others by name. */
  given: readonly string[];
}>;

const settings = {
  search_path: '',
  row_security: 'off',
  default_transaction_isolation: 'repeatable read',
  default_transaction_read_only: 'on',
  lock_timeout: String(dumpLockWaitMs),
  client_connection_check_interval: '1000',
  client_min_messages: 'error',
  DateStyle: 'ISO, MDY',
  TimeZone: 'UTC',
  IntervalStyle: 'iso_8601',
  bytea_output: 'hex',
  extra_float_digits: '1',
};
const listMs = 30_000;
const lockedAtOnce = 500;
const attempts = 3;

/** A session as the dump role. */
export async function openReader(address: Address, sessionName: string): Promise<Session> {
  try {
    return await Session.open(address, {
      application_name: sessionName,
      options: startupOptions(settings),
    });
  } catch (error) {
    if (error instanceof RefusedError && error.sqlstate === sqlstate.tooManyConnections)
      throw errors.exportRunning();
    throw errors.unavailable(error);
  }
}

/**
 * Begins the transaction of an export: all tables are locked against being changed or dropped, and what is read is of one moment.
 * `for` a drill: tables that the project's own roles may not read and lock are left out instead of refused, and no session can create
 * an index meanwhile, see `findOwnCode`.
 */
export async function lockTables(
  session: Session,
  signal: AbortSignal,
  purpose: 'export' | 'drill' = 'export',
): Promise<Table[]> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await tryToLock(session, signal, purpose);
    } catch (error) {
      if (error instanceof RowhouseError) throw error;
      if (!(error instanceof AskError)) throw errors.unavailable(error);
      await run(session, 'rollback', signal);
      if (error.sqlstate === sqlstate.lockNotAvailable || error.sqlstate === sqlstate.queryCanceled)
        throw errors.exportLocked(error);
      if (error.sqlstate === sqlstate.insufficientPrivilege) throw errors.exportRefused(error.message);
      // Dropped or renamed between the look and the lock.
      const isGone =
        error.sqlstate === sqlstate.undefinedTable || error.sqlstate === sqlstate.undefinedSchema;
      if (!isGone || attempt === attempts) throw errors.exportLocked(error);
    }
  }
}

async function tryToLock(
  session: Session,
  signal: AbortSignal,
  purpose: 'export' | 'drill',
): Promise<Table[]> {
  // A drill compares table by table. What it asks after the locks must be what is true then, not what was at its beginning.
  const level = purpose === 'export' ? 'repeatable read' : 'read committed';
  await run(session, `begin isolation level ${level}`, signal);
  // As pg_dump does: a table that is replaced by a view at the wrong moment must not run the view's functions.
  await run(session, restrictKinds, signal);
  const all = await run(session, listTables, signal);
  const rows =
    purpose === 'export' ? all : all.filter((row) => row[4] !== 't' && row[6] === 't' && row[7] === 't');
  const hidden = rows.find(([, , , , hides]) => hides === 't');
  if (hidden) {
    throw errors.exportRefused(`row security of ${hidden[0]}.${hidden[1]} holds for its owner too`);
  }
  const tables = rows.map(readTable);
  await lock(session, tables, purpose === 'export' ? 'access share' : noNewIndexes, signal);
  return tables;
}

/** Rows can be read and written; no index and no statistics can be created. */
const noNewIndexes = 'share update exclusive';

async function lock(
  session: Session,
  tables: readonly Table[],
  mode: string,
  signal: AbortSignal,
): Promise<void> {
  for (let at = 0; at < tables.length; at += lockedAtOnce) {
    const names = tables.slice(at, at + lockedAtOnce).map(nameOf);
    await run(session, `lock table only ${names.join(', only ')} in ${mode} mode`, signal);
  }
}

/**
 * The oids of tables for which PostgreSQL runs code of the project when it plans a query, even one without a condition: it
 * computes constant parts of index expressions, index predicates, statistics and partition keys then, by calling functions that
 * are declared immutable. `COPY table TO` is not planned. The tables must be locked against new indexes, and the session must see
 * what was committed before that.
 */
export async function findOwnCode(
  session: Session,
  tables: readonly Table[],
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  const oids = tables.map(({ oid }) => oid);
  const rows = await run(session, listOwnCode.replace('$1', `'{${oids.join(',')}}'`), signal);
  return new Set(rows.map(([oid]) => oid ?? ''));
}

/**
 * As findOwnCode, for tables that are not locked against new indexes yet. One that cannot be locked counts as one with code. The
 * session of an export sees the past, so another one looks.
 */
export async function lockAndFindOwnCode(
  session: Session,
  openAnother: () => Promise<Session>,
  tables: readonly Table[],
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  const lockable = tables.filter(({ isLockable }) => isLockable);
  try {
    await lock(session, lockable, noNewIndexes, signal);
  } catch (error) {
    throw error instanceof AskError ? errors.exportLocked(error) : errors.unavailable(error);
  }
  const another = await openAnother();
  const found = await findOwnCode(another, lockable, signal).finally(() => another.close());
  const others = tables.filter(({ isLockable }) => !isLockable);
  return new Set([...found, ...others.map(({ oid }) => oid)]);
}

export function nameOf({ schema, name }: Table): string {
  return `${sql.id(schema).text}.${sql.id(name).text}`;
}

/** Servers of before August 2024 do not have the setting. */
const restrictKinds = `
  select pg_catalog.set_config(name, 'view,foreign-table', false)
  from pg_catalog.pg_settings where name = 'restrict_nonsystem_relation_kind'`;

const listTables = `
  select nspname, relname, relkind, relispartition, pg_catalog.row_security_active(c.oid), (
    select pg_catalog.json_agg(pg_catalog.json_build_array(attname, attgenerated = '') order by attnum)
    from pg_catalog.pg_attribute
    where attrelid = c.oid and attnum > 0 and not attisdropped and attgenerated <> 'v'),
    pg_catalog.has_schema_privilege(n.oid, 'usage') and pg_catalog.has_table_privilege(c.oid, 'select'),
    pg_catalog.has_table_privilege(c.oid, 'update, delete, truncate'),
    c.oid, case when relispartition then pg_catalog.pg_partition_root(c.oid)::pg_catalog.oid end
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = relnamespace
  where relkind in ('r', 'p') and relpersistence <> 't'
    and nspname <> all ('{pg_catalog,information_schema,pg_toast,rowhouse}')
  order by 1, 2`;

/** Objects with an oid below 16384 are PostgreSQL's own. A table depends as a whole (0) only on what its partition key uses. */
const listOwnCode = `
  with wanted as (select pg_catalog.unnest($1::pg_catalog.oid[]) as oid),
  parts (id, kind, part) as (
    select oid, 'pg_catalog.pg_class'::pg_catalog.regclass, oid from wanted
    union all
    select oid, 'pg_catalog.pg_class'::pg_catalog.regclass, indexrelid from wanted join pg_catalog.pg_index on indrelid = oid
    union all
    select wanted.oid, 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass, statistics.oid
    from wanted join pg_catalog.pg_statistic_ext as statistics on stxrelid = wanted.oid
  )
  select distinct id from parts join pg_catalog.pg_depend on classid = kind and objid = part and objsubid = 0
  where refobjid >= 16384 and refclassid in (
    'pg_catalog.pg_proc'::pg_catalog.regclass, 'pg_catalog.pg_operator'::pg_catalog.regclass,
    'pg_catalog.pg_type'::pg_catalog.regclass)`;

function readTable(row: readonly (string | null)[]): Table {
  const [schema, name, kind, isPartition, , columns, , isLockable, oid, root] = row;
  const found = columns ? (JSON.parse(columns) as [string, boolean][]) : [];
  return {
    oid: oid ?? '',
    schema: schema ?? '',
    name: name ?? '',
    isPartitioned: kind === 'p',
    isPartition: isPartition === 't',
    root: root ?? null,
    isLockable: isLockable === 't',
    columns: found.map(([column]) => column),
    given: found.filter(([, isGiven]) => isGiven).map(([column]) => column),
  };
}

function run(session: Session, text: string, signal: AbortSignal) {
  return ask(session, text, [], { timeoutMs: listMs, signal, terminate: (given) => given.destroy() });
}
