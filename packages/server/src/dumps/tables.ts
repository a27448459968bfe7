// The tables of a project as an export sees them: listed and locked in one transaction that only reads. Before a dump it
// tells in SQLSTATEs what would make pg_dump fail; a CSV export goes on in the same transaction.
import { errors, RowhouseError } from '../errors.ts';
import { AskError, ask } from '../postgres/ask.ts';
import type { Address } from '../postgres/database.ts';
import { RefusedError, Session } from '../postgres/session.ts';
import { sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';
import { startupOptions } from '../postgres/startup-options.ts';
import { lockWaitMs } from './pg-dump.ts';

export type Table = Readonly<{
  schema: string;
  name: string;
  isPartitioned: boolean;
  isPartition: boolean;
  /** Without those that PostgreSQL works out when they are read. */
  columns: readonly string[];
}>;

const settings = {
  search_path: '',
  row_security: 'off',
  default_transaction_isolation: 'repeatable read',
  default_transaction_read_only: 'on',
  lock_timeout: String(lockWaitMs),
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
    if (error instanceof RefusedError && error.sqlstate === tooManyConnections) throw errors.exportRunning();
    throw errors.unavailable(error);
  }
}
const tooManyConnections = '53300';

/** Begins the transaction of an export: all tables are locked against being changed or dropped, and what is read is of one moment. */
export async function lockTables(session: Session, signal: AbortSignal): Promise<Table[]> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await tryToLock(session, signal);
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

async function tryToLock(session: Session, signal: AbortSignal): Promise<Table[]> {
  await run(session, 'begin', signal);
  // As pg_dump does: a table that is replaced by a view at the wrong moment must not run the view's functions.
  await run(session, restrictKinds, signal);
  const rows = await run(session, listTables, signal);
  const hidden = rows.find(([, , , , hides]) => hides === 't');
  if (hidden) {
    throw errors.exportRefused(`row security of ${hidden[0]}.${hidden[1]} holds for its owner too`);
  }
  const tables = rows.map(readTable);
  for (let at = 0; at < tables.length; at += lockedAtOnce) {
    const names = tables.slice(at, at + lockedAtOnce).map(nameOf);
    await run(session, `lock table only ${names.join(', only ')} in access share mode`, signal);
  }
  return tables;
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
    select pg_catalog.json_agg(attname order by attnum)
    from pg_catalog.pg_attribute
    where attrelid = c.oid and attnum > 0 and not attisdropped and attgenerated <> 'v')
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = relnamespace
  where relkind in ('r', 'p') and relpersistence <> 't'
    and nspname <> all ('{pg_catalog,information_schema,pg_toast,rowhouse}')
  order by 1, 2`;

function readTable(row: readonly (string | null)[]): Table {
  const [schema, name, kind, isPartition, , columns] = row;
  return {
    schema: schema ?? '',
    name: name ?? '',
    isPartitioned: kind === 'p',
    isPartition: isPartition === 't',
    columns: columns ? (JSON.parse(columns) as string[]) : [],
  };
}

function run(session: Session, text: string, signal: AbortSignal) {
  return ask(session, text, [], { timeoutMs: listMs, signal, terminate: (given) => given.destroy() });
}
