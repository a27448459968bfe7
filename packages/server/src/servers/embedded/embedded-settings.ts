// The settings of the embedded PostgreSQL, for many unrelated databases on one machine. Each value has its reason beside it.
import { totalmem } from 'node:os';

/** `diskMb`: the total size of the disk that holds the data. */
export type Machine = { memoryMb: number; diskMb: number; platform: NodeJS.Platform };
export type EmbeddedSettings = { options: Record<string, string>; addressSpaceMb: number };

/** In a container, the container's limit. Without a limit, Node returns 0 or an absurdly large number. */
export function machineMemoryMb(): number {
  return Math.floor(
    Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY) / 1024 / 1024,
  );
}

/** In addition to connections to projects' databases: the service's own, and direct ones. */
const otherConnections = 100;
/** Entries in the server's lock table, independent of the number of connections: about 60 MB. */
const allLocks = 204_800;

/**
 * The maximum number of connections to projects' databases: half of the memory, at 3 MB per connection that has run a
 * statement. More would leave too little for the page cache; connections of idle projects are closed anyway.
 */
export function connectionsByMemory(memoryMb: number): number {
  return clamp(Math.floor(memoryMb / 2 / 3), 100, 4_000);
}

/** Makes PostgreSQL note which blocks WAL changes, for backups that contain only those. */
export const incrementalBackups = { summarize_wal: 'on' };

/** `connections`: the maximum that the service keeps open to projects' databases. */
export function embeddedSettings(machine: Machine, port: number, connections: number): EmbeddedSettings {
  const maxConnections = connections + otherConnections;
  const sharedBuffersMb = sharedBuffersBy(machine.memoryMb);
  const options: Record<string, string> = {
    // Reachable from this machine only, and only with a password (pg_hba.conf: scram).
    listen_addresses: '127.0.0.1',
    port: String(port),
    // In the cluster folder itself, which no other account can enter.
    unix_socket_directories: machine.platform === 'win32' ? '' : '.',
    unix_socket_permissions: '0700',
    password_encryption: 'scram-sha-256',
    max_connections: String(maxConnections),
    // For the service itself: projects that use all their connections must not lock it out.
    superuser_reserved_connections: '40',
    // A connection that does not log in occupies a slot no longer than this.
    authentication_timeout: '5s',

    shared_buffers: `${sharedBuffersMb}MB`,
    effective_cache_size: `${Math.max(64, Math.floor(machine.memoryMb / 2))}MB`,
    work_mem: '4MB',
    maintenance_work_mem: '64MB',
    // One statement gets one core: other projects' requests matter more than a faster scan.
    max_parallel_workers_per_gather: '0',
    max_parallel_maintenance_workers: '0',
    jit: 'off',
    // Every session of a project calls a function in PL/pgSQL. Otherwise each new process would load the library by itself.
    shared_preload_libraries: 'plpgsql',

    // Projects can be moved to other servers without a long pause. It adds 0.2–1.0 % to the WAL.
    wal_level: 'logical',
    ...walSettings(machine.diskMb),
    wal_compression: 'on',
    checkpoint_timeout: '10min',

    // A statement over thousands of tables must not use up the lock table that all projects share.
    max_locks_per_transaction: String(clamp(Math.floor(allLocks / maxConnections), 64, 1024)),
    max_prepared_transactions: '0',
    // All projects share the queue. A flood writes 0.1 GB in the 100 ms until the session that holds the queue back is
    // ended, and one transaction can write as much as a process has memory: 2 GB. The queue is on disk, so a small disk
    // gets a smaller one.
    max_notify_queue_pages: String(clamp(Math.floor(machine.diskMb / 64), 64, 4096) * 128),
    // Detects that a client has disconnected while its statement runs.
    client_connection_check_interval: '1s',

    log_line_prefix: '%m [%p] ',
    log_min_messages: 'warning',
    log_min_error_statement: 'panic',
    log_checkpoints: 'off',
    log_statement: 'none',
    timezone: 'UTC',
    log_timezone: 'UTC',
    cluster_name: 'rowhouse',
  };
  // With 3,000 databases, a start after a crash takes 3 s instead of 47.
  if (machine.platform === 'linux') options.recovery_init_sync_method = 'syncfs';
  if (machine.platform === 'win32') options.client_connection_check_interval = '0';
  // The shared memory that every process maps, plus the memory of one statement. A statement that needs more gets an error
  // (53200); otherwise the out-of-memory killer could end another project's process.
  const addressSpaceMb = sharedBuffersMb + 512 + clamp(Math.floor(machine.memoryMb / 16), 512, 2048);
  return { options, addressSpaceMb };
}

function sharedBuffersBy(memoryMb: number): number {
  return clamp(Math.floor(memoryMb / 8), 32, 2048);
}

/** The most shared memory that PostgreSQL takes: buffers, the lock table, and about 0.1 MB for each connection. */
export function sharedMemoryBy(memoryMb: number, connections: number): number {
  return Math.ceil(sharedBuffersBy(memoryMb) + 96 + 0.12 * (connections + otherConnections));
}

/**
 * PostgreSQL keeps the WAL since the second-to-last checkpoint, and crashes if there is no space for it: a sixteenth of the
 * disk, but at least the two files of 16 MB that it needs to start.
 */
function walSettings(diskMb: number): Record<string, string> {
  const mostMb = clamp(Math.floor(diskMb / 16), 32, 1024);
  // While backups cannot be stored, PostgreSQL keeps WAL for them, and gives it up before the disk is full.
  const slotMb = clamp(Math.floor(diskMb / 16), 64, 4096);
  return {
    max_wal_size: `${mostMb}MB`,
    min_wal_size: `${clamp(Math.floor(mostMb / 2), 32, 80)}MB`,
    max_slot_wal_keep_size: `${slotMb}MB`,
  };
}

function clamp(value: number, min: number, max: number): number {
  return Math.min(max, Math.max(min, value));
}
