// What pg_control says about the server that wrote it. A server that replays its WAL and answers queries meanwhile must
// have room for at least as many connections and locks; pg_controldata, which prints these, is not shipped.
import path from 'node:path';
import type { Queryable } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { EngineError } from '../engine-error.ts';
import { readSmallBytes } from './small-files.ts';

/** Settings that a replaying server must not have lower than the server that wrote the WAL. */
export type Capacity = Readonly<{
  max_connections: number;
  max_worker_processes: number;
  max_wal_senders: number;
  max_prepared_transactions: number;
  max_locks_per_transaction: number;
}>;

export type ControlFile = Readonly<{
  capacity: Capacity;
  /**
   * After a checkpoint, the first change of every page is in the WAL with the whole page, and so is a hint. Only then can
   * a database be left out of a recovery: no record refers to a page that is not there.
   */
  hasWholePages: boolean;
}>;

/** ControlFileData of PostgreSQL 18, little endian, as on all platforms of the embedded server. */
const version = 1800;
const at = {
  version: 8,
  fullPageWrites: 56,
  walLogHints: 176,
  max_connections: 180,
  max_worker_processes: 184,
  max_wal_senders: 188,
  max_prepared_transactions: 192,
  max_locks_per_transaction: 196,
  checksumVersion: 252,
};

export function readControlFile(clusterFolder: string): ControlFile {
  const file = path.join(clusterFolder, 'global', 'pg_control');
  const bytes = readSmallBytes(file);
  if (bytes.length < 512 || bytes.readUInt32LE(at.version) !== version) {
    throw new EngineError(`${file} is not the control file of PostgreSQL 18.`);
  }
  const number = (name: keyof Capacity) => bytes.readInt32LE(at[name]);
  const logsHints = bytes[at.walLogHints] === 1 || bytes.readUInt32LE(at.checksumVersion) > 0;
  return {
    capacity: {
      max_connections: number('max_connections'),
      max_worker_processes: number('max_worker_processes'),
      max_wal_senders: number('max_wal_senders'),
      max_prepared_transactions: number('max_prepared_transactions'),
      max_locks_per_transaction: number('max_locks_per_transaction'),
    },
    hasWholePages: bytes[at.fullPageWrites] === 1 && logsHints,
  };
}

/** As the server is set now. */
export async function readCapacity(database: Queryable): Promise<Capacity> {
  const [row] = await database.query<Capacity>(sql`
    select current_setting('max_connections')::int as max_connections,
           current_setting('max_worker_processes')::int as max_worker_processes,
           current_setting('max_wal_senders')::int as max_wal_senders,
           current_setting('max_prepared_transactions')::int as max_prepared_transactions,
           current_setting('max_locks_per_transaction')::int as max_locks_per_transaction`);
  if (!row) throw new EngineError('PostgreSQL does not report its settings.');
  return row;
}

/** Enough for both. */
export function larger(one: Capacity, other: Capacity): Capacity {
  const names = Object.keys(one) as (keyof Capacity)[];
  const pairs = names.map((name) => [name, Math.max(one[name], other[name])]);
  return Object.fromEntries(pairs) as Capacity;
}
