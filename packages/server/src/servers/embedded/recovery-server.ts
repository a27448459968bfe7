// A second PostgreSQL on a folder that was laid out from a backup. It replays the WAL that is put into pg_wal, stops at a
// moment, and is then opened for one reader. It listens on a socket in its own folder only, and nothing in it lasts.
import { existsSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type UnlessFailed, unlessFailed } from '../../lib/pause.ts';
import { type Address, type Database, openDatabase } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { EngineError } from '../engine-error.ts';
import { derivePassword } from '../role-passwords.ts';
import { type Capacity, larger, readControlFile } from './control-file.ts';
import { writeConfiguration } from './embed.ts';
import type { EmbeddedSettings } from './embedded-settings.ts';
import { type Cluster, startPostmaster, stopPostmaster, superuser } from './postmaster.ts';
import {
  endLeftovers,
  findReplayedFile,
  findUnnamed,
  inspectPidFile,
  isRunning,
} from './server-processes.ts';

type Options = {
  cluster: Cluster;
  masterKey: Buffer;
  /** The last commit that counts. null: replay everything. */
  target: Date | null;
  /** The capacity of the server that wrote the WAL, as it is now: the backup may be from before a change. null: it is gone. */
  capacity: Capacity | null;
  /** Whether its files are used afterwards. */
  isDurable: boolean;
  /** The superuser of a server that is not embedded. null: the embedded one, whose password is known. */
  superuser: string | null;
  signal: AbortSignal;
  /** Called every second until it answers, with the WAL file that it replays or waits for. */
  onReplay: (file: string) => void;
};

export type ReplayState = {
  replayed: bigint;
  /** `target`: it has stopped right after the target. `waiting`: it has replayed all WAL that is there. */
  is: 'replaying' | 'waiting' | 'target';
  /** The time of the last commit that was replayed. */
  lastCommit: Date | null;
};

export type RecoveryServer = {
  address: Address;
  database: Database;
  look(): Promise<ReplayState>;
  /** Ends the replay. From here on the server accepts changes, which nobody keeps. */
  open(): Promise<void>;
  /** What `work` resolves with, unless PostgreSQL ends by itself before. */
  unlessFailed: UnlessFailed;
  stop(): Promise<void>;
};

const sharedBuffersMb = 128;
const openWithinS = 120;
const watchMs = 1_000;
/**
 * How long the last checkpoint and a stop may take: PostgreSQL writes out everything that it replayed, as fast as the disk is.
 * A server that hangs is noticed earlier, by `look`.
 */
export const writeOutMs = 30 * 60_000;

/** Returns when the server answers queries, which is when it has replayed the WAL that was written during the backup. */
export async function startRecovery(options: Options): Promise<RecoveryServer> {
  const { cluster, masterKey, signal } = options;
  const control = readControlFile(cluster.folder);
  const capacity = larger(control.capacity, options.capacity ?? control.capacity);
  const { socket, port, tcp } = await chooseEndpoint(cluster.folder);
  if (options.superuser !== null) replaceConfiguration(cluster, socket);
  writeFileSync(path.join(cluster.folder, 'standby.signal'), '', { mode: 0o600 });
  const settings = settingsOf(capacity, port, tcp, options);
  // Nothing has to be saved, so it is killed instead of being shut down.
  const end = () => void endRecovery(cluster.folder).catch(() => {});
  if (!options.isDurable) signal.addEventListener('abort', end, { once: true });
  const watching = setInterval(() => {
    const file = findReplayedFile(cluster.folder);
    if (file !== null) options.onReplay(file);
  }, watchMs);
  const postmaster = await startPostmaster(cluster, settings, signal, () => {}).finally(() => {
    clearInterval(watching);
    signal.removeEventListener('abort', end);
  });
  const address: Address = {
    // pg looks for a socket in a host that is a folder.
    host: socket === null ? tcp : path.dirname(socket),
    port,
    user: options.superuser ?? superuser,
    database: 'postgres',
    tls: false as const,
    password: options.superuser === null ? derivePassword(masterKey, superuser) : '',
    ...(socket !== null && { socket }),
  };
  const database = openDatabase(address, { max: 2, statementMs: writeOutMs, queryMs: 65_000 });
  let isStopping = false;
  const exited = postmaster.exited.then((how): never => {
    throw isStopping ? new Error('stopped') : new EngineError(`The PostgreSQL of the restore ${how}.`);
  });
  const unlessExited = unlessFailed(exited);
  return {
    address,
    database,
    unlessFailed: unlessExited,
    look: () => unlessExited(look(database, cluster.folder, capacity)),
    open: async () => {
      // It may be open already: see look.
      const promote = sql`select pg_promote(true, ${openWithinS}::int) where pg_is_in_recovery()`;
      await unlessExited(database.query(promote, writeOutMs));
      const [row] = await database.query<{ closed: boolean }>(sql`select pg_is_in_recovery() as closed`);
      if (row?.closed !== false) throw new EngineError('The PostgreSQL of the restore did not open.');
    },
    stop: async () => {
      isStopping = true;
      // First, unless data has to be written out: a server that hangs would keep its connections.
      if (!options.isDurable) await endRecovery(cluster.folder);
      await database.end();
      await stopPostmaster(cluster, postmaster);
    },
  };
}

/**
 * The configuration of a server of others names libraries, certificates and files that are not here, and its passwords are not
 * known. Only the account that runs PostgreSQL, and root, can enter the folder with the socket.
 */
function replaceConfiguration(cluster: Cluster, socket: string | null): void {
  if (socket === null)
    throw new EngineError(`A socket cannot be made in ${cluster.folder}.`, {
      hint: 'Choose a data folder with a shorter path, on Linux or macOS: ROWHOUSE_DATA.',
    });
  writeConfiguration(cluster, { configuration: '', access: 'local all all trust\n' });
}

async function look(database: Database, folder: string, capacity: Capacity): Promise<ReplayState> {
  const [row] = await database.query<{
    replayed: string;
    paused: string | null;
    lastCommit: Date | null;
    waitsFor: string | null;
  }>(sql`
    select (pg_last_wal_replay_lsn() - '0/0')::text as replayed,
           case when pg_is_in_recovery() then pg_get_wal_replay_pause_state() end as paused,
           pg_last_xact_replay_timestamp() as "lastCommit",
           (select wait_event from pg_stat_activity where backend_type = 'startup') as "waitsFor"`);
  if (!row) throw new EngineError('The PostgreSQL of the restore does not report its progress.');
  // It does not pause at the target, but ends the replay there, if it cannot answer before: a transaction with many savepoints was
  // open during the backup, and still is.
  const isPaused = row.paused === 'paused' || row.paused === null;
  // It pauses too when the WAL says that the server had more connections than there is room for here.
  if (
    isPaused &&
    larger(readControlFile(folder).capacity, capacity).max_connections > capacity.max_connections
  )
    throw new EngineError('The settings of PostgreSQL were changed after the backup: more connections.');
  const isWaiting = row.waitsFor === 'RecoveryRetrieveRetryInterval';
  return {
    replayed: BigInt(row.replayed),
    is: isPaused ? 'target' : isWaiting ? 'waiting' : 'replaying',
    lastCommit: row.lastCommit,
  };
}

function settingsOf(
  capacity: Capacity,
  port: number,
  tcp: string,
  { target, isDurable }: Options,
): EmbeddedSettings {
  const ifDurable = isDurable ? 'on' : 'off';
  const options: Record<string, string> = {
    listen_addresses: tcp,
    port: String(port),
    unix_socket_directories: process.platform === 'win32' ? '' : '.',
    unix_socket_permissions: '0700',
    ...Object.fromEntries(Object.entries(capacity).map(([name, value]) => [name, String(value)])),
    // Polls pg_wal, where segments appear while it replays: no command has to be run for each of them.
    restore_command: '',
    primary_conninfo: '',
    primary_slot_name: '',
    wal_retrieve_retry_interval: '50ms',
    wal_recycle: 'off',
    hot_standby: 'on',
    recovery_target_timeline: 'current',
    recovery_target_action: 'pause',
    // Commits at the very microsecond count.
    recovery_target_inclusive: 'on',
    ...(target && { recovery_target_time: timeText(target) }),
    // What is lost in a crash is made again.
    fsync: ifDurable,
    synchronous_commit: ifDurable,
    full_page_writes: ifDurable,
    archive_mode: 'off',
    summarize_wal: 'off',
    // Large objects whose owner may not read them are dumped, too (backups/restore/dump-recovered.ts).
    lo_compat_privileges: 'on',
    // Databases that were left out are full of zeroes: nothing may read them.
    autovacuum: 'off',
    // A backup that was taken during a move contains a subscription, which must not follow the live server.
    max_logical_replication_workers: '0',
    shared_buffers: `${sharedBuffersMb}MB`,
    maintenance_work_mem: '64MB',
    max_wal_size: '64GB',
    checkpoint_timeout: '1h',
    jit: 'off',
    max_parallel_workers_per_gather: '0',
    log_min_messages: 'warning',
    log_min_error_statement: 'panic',
    timezone: 'UTC',
    log_timezone: 'UTC',
    cluster_name: 'rowhouse restore',
  };
  return { options, addressSpaceMb: sharedBuffersMb + 2_560 };
}

/** As PostgreSQL reads it before it knows names of time zones, such as Z. */
function timeText(time: Date): string {
  return time.toISOString().replace('T', ' ').replace('Z', '+00');
}

/** A socket in the folder, whose path is limited to 108 bytes, on some systems to 104. Otherwise a port of this machine. */
async function chooseEndpoint(folder: string): Promise<{ socket: string | null; port: number; tcp: string }> {
  const port = 5432;
  const socket = path.join(folder, `.s.PGSQL.${port}`);
  if (process.platform !== 'win32' && Buffer.byteLength(socket) < 104) return { socket, port, tcp: '' };
  const free = await new Promise<number>((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });
  return { socket: null, port: free, tcp: '127.0.0.1' };
}

/** Removes the folder of a restore, with the server that may still work in it, or hang. */
export async function removeRecovery(folder: string): Promise<void> {
  if (!existsSync(folder)) return;
  await endRecovery(folder);
  await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
}

async function endRecovery(folder: string): Promise<void> {
  const named = inspectPidFile(folder);
  const found = named && named.kind !== 'stale' ? named : findUnnamed(folder);
  for (let waitedMs = 0; found && isRunning(found.pid) && waitedMs < endWithinMs; waitedMs += 50) {
    // At once, without writing anything out.
    if (waitedMs === 0) process.kill(found.pid, 'SIGQUIT');
    if (waitedMs === endWithinMs / 2) process.kill(found.pid, 'SIGKILL');
    await sleep(50);
  }
  endLeftovers(folder, 'SIGKILL');
}
const endWithinMs = 10_000;
