// How the embedded PostgreSQL is set up: for many strangers' databases on one machine. Reasons stand beside values.
import { totalmem } from 'node:os';

/** `diskMb`: the size of the disk that holds the data, in all. */
export type Machine = { memoryMb: number; diskMb: number; platform: NodeJS.Platform };
export type EmbeddedSettings = { options: Record<string, string>; addressSpaceMb: number };

/** In a container its limit counts; without one Node gives 0 or an absurdly large number. */
export function machineMemoryMb(): number {
  return Math.floor(
    Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY) / 1024 / 1024,
  );
}

/** Beside those to projects' databases: the service's own, and direct ones. */
const otherConnections = 100;
/** In the server's lock table, however many connections share it: about 60 MB. */
const allLocks = 204_800;

/**
 * Connections to projects' databases, if all of them are used: a half of the memory at 3 MB each, which one takes up that
 * has run something. More would leave no room in the page cache; those of projects that sleep are closed anyway.
 */
export function connectionsByMemory(memoryMb: number): number {
  return clamp(Math.floor(memoryMb / 2 / 3), 100, 4_000);
}

/** `connections`: how many the service keeps open to projects' databases at most. */
export function embeddedSettings(machine: Machine, port: number, connections: number): EmbeddedSettings {
  const maxConnections = connections + otherConnections;
  const sharedBuffersMb = clamp(Math.floor(machine.memoryMb / 8), 32, 2048);
  const options: Record<string, string> = {
    // Reachable from this machine only, and only with a password (pg_hba.conf: scram).
    listen_addresses: '127.0.0.1',
    port: String(port),
    // In the cluster folder itself, which nobody else can enter.
    unix_socket_directories: machine.platform === 'win32' ? '' : '.',
    unix_socket_permissions: '0700',
    password_encryption: 'scram-sha-256',
    max_connections: String(maxConnections),
    // For the service itself, so that projects with all their connections cannot shut it out.
    superuser_reserved_connections: '40',
    // A connection that does not even log in holds a place no longer than this.
    authentication_timeout: '5s',

    shared_buffers: `${sharedBuffersMb}MB`,
    effective_cache_size: `${Math.max(64, Math.floor(machine.memoryMb / 2))}MB`,
    work_mem: '4MB',
    maintenance_work_mem: '64MB',
    // One statement gets one core: a neighbour's request is worth more than a faster scan.
    max_parallel_workers_per_gather: '0',
    max_parallel_maintenance_workers: '0',
    jit: 'off',

    ...walSettings(machine.diskMb),
    wal_compression: 'on',
    checkpoint_timeout: '10min',

    // A statement over thousands of tables must not use up everybody's lock table.
    max_locks_per_transaction: String(clamp(Math.floor(allLocks / maxConnections), 64, 1024)),
    max_prepared_transactions: '0',
    // One for all projects. A flood writes 0.1 GB in the 100 ms in which whoever holds the queue back is ended, and one
    // transaction as much as a process has memory: 2 GB. It lies on disk, so a small one gets less.
    max_notify_queue_pages: String(clamp(Math.floor(machine.diskMb / 64), 64, 4096) * 128),
    // A caller who hung up is noticed while its statement runs.
    client_connection_check_interval: '1s',
    // With thousands of databases a visit to each every minute is all that autovacuum would do.
    autovacuum_naptime: '5min',

    log_line_prefix: '%m [%p] ',
    log_min_messages: 'warning',
    log_min_error_statement: 'panic',
    log_checkpoints: 'off',
    log_statement: 'none',
    timezone: 'UTC',
    log_timezone: 'UTC',
    cluster_name: 'rowhouse',
  };
  // A crash start with 3,000 databases takes 3 s instead of 47.
  if (machine.platform === 'linux') options.recovery_init_sync_method = 'syncfs';
  if (machine.platform === 'win32') options.client_connection_check_interval = '0';
  // Beside the shared memory every process maps: room for one statement's own memory. A statement that wants more
  // gets an error (53200) instead of the machine's out-of-memory killer ending a neighbour.
  const addressSpaceMb = sharedBuffersMb + 512 + clamp(Math.floor(machine.memoryMb / 16), 512, 2048);
  return { options, addressSpaceMb };
}

/**
 * Changes since the last checkpoint but one are kept, and PostgreSQL dies where there is no room for them: a sixteenth of
 * the disk, at least the two files of 16 MB without which it does not start.
 */
function walSettings(diskMb: number): Record<string, string> {
  const mostMb = clamp(Math.floor(diskMb / 16), 32, 1024);
  return { max_wal_size: `${mostMb}MB`, min_wal_size: `${clamp(Math.floor(mostMb / 2), 32, 80)}MB` };
}

function clamp(value: number, min: number, max: number): number {
  return Math.min(max, Math.max(min, value));
}
