import { expect, it } from 'vitest';
import { enoughLocks } from '../external.ts';
import { embeddedSettings } from './embedded-settings.ts';

it('makes PostgreSQL reachable from this machine only, durable, and fair to all projects', () => {
  const { options } = embeddedSettings({ memoryMb: 24_000, diskMb: 200_000, platform: 'linux' }, 5555, 100);
  expect(options).toMatchObject({
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '.',
    unix_socket_permissions: '0700',
    port: '5555',
    password_encryption: 'scram-sha-256',
    max_prepared_transactions: '0',
    client_connection_check_interval: '1s',
    recovery_init_sync_method: 'syncfs',
    max_parallel_workers_per_gather: '0',
    shared_preload_libraries: 'plpgsql',
  });
  expect(Number(options.max_locks_per_transaction)).toBeGreaterThanOrEqual(512);
  for (const risky of ['fsync', 'full_page_writes', 'synchronous_commit'])
    expect(options).not.toHaveProperty(risky);
});

it.each([256, 1024, 8192, 512_000])('chooses memory settings for a machine with %i MB', (memoryMb) => {
  const { options, addressSpaceMb } = embeddedSettings(
    { memoryMb, diskMb: 200_000, platform: 'linux' },
    1,
    100,
  );
  const shared = Number.parseInt(options.shared_buffers ?? '', 10);
  expect(shared).toBeGreaterThanOrEqual(32);
  expect(shared).toBeLessThanOrEqual(Math.max(32, memoryMb / 4));
  expect(addressSpaceMb).toBeGreaterThan(shared + 512);
});

it.each([1, 100, 3_000])(
  'allows %i connections to projects and all others, without enlarging the lock table',
  (connections) => {
    const { options } = embeddedSettings(
      { memoryMb: 24_000, diskMb: 200_000, platform: 'linux' },
      1,
      connections,
    );
    const most = Number(options.max_connections);
    expect(most - Number(options.superuser_reserved_connections)).toBeGreaterThanOrEqual(connections + 50);
    const locks = most * Number(options.max_locks_per_transaction);
    expect(locks).toBeLessThanOrEqual(210_000);
    expect(locks).toBeGreaterThanOrEqual(enoughLocks);
  },
);

it.each([
  [300, 32, 64],
  [700, 43, 64],
  [2_000, 125, 64],
  [20_000, 1024, 312],
  [1_000_000, 1024, 4096],
])('on a disk of %i MB, limits the WAL to %i MB and notifications to %i MB', (diskMb, walMb, queueMb) => {
  const { options } = embeddedSettings({ memoryMb: 24_000, diskMb, platform: 'linux' }, 1, 100);
  expect([options.max_wal_size, Number(options.max_notify_queue_pages) / 128]).toEqual([
    `${walMb}MB`,
    queueMb,
  ]);
  expect(Number.parseInt(options.min_wal_size ?? '', 10)).toBeLessThanOrEqual(walMb);
  // What the backups' slot may keep is bounded too, so that storage that is away does not fill the disk.
  const slotMb = Number.parseInt(options.max_slot_wal_keep_size ?? '', 10);
  expect(slotMb).toBeGreaterThanOrEqual(64);
  expect(slotMb).toBeLessThanOrEqual(Math.max(64, diskMb / 16));
});
