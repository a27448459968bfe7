import { describe, expect, it } from 'vitest';
import { formatLsn } from '../../postgres/replication/lsn.ts';
import type { BackupDescription } from '../repository/repository.ts';
import { dueBackup } from './schedule.ts';

const hour = 3_600_000;
const mb = 1024n * 1024n;
const now = Date.parse('2026-11-16T12:00:00Z');

/** A backup that ended so many hours ago, when so many MB of WAL had been written. */
function backup(kind: 'full' | 'incremental', hoursAgo: number, walMb: bigint): BackupDescription {
  const at = new Date(now - hoursAgo * hour).toISOString();
  return {
    format: 1,
    id: `${at}-${kind}`,
    kind,
    parent: null,
    cluster: '1',
    timeline: 1,
    postgres: '18.4',
    segment_bytes: 16 * 1024 * 1024,
    started_at: at,
    ended_at: at,
    databases: [],
    parts: [],
    start_lsn: formatLsn(walMb * mb),
    end_lsn: formatLsn(walMb * mb),
    manifest: { name: 'manifest', bytes: 1, stored_bytes: 1, sha256: '' },
  };
}
const due = (backups: BackupDescription[], walMb: bigint) => dueBackup(backups, walMb * mb, now);

describe('the schedule of backups', () => {
  it('begins with a full backup', () => {
    expect(due([], 1n)).toBe('full');
    expect(due([backup('incremental', 1, 1n)], 1n)).toBe('full');
  });

  it('takes an incremental backup after 6 hours or 4 GB of WAL', () => {
    expect(due([backup('full', 5, 0n)], 3_000n)).toBeNull();
    expect(due([backup('full', 7, 0n)], 3_000n)).toBe('incremental');
    expect(due([backup('full', 1, 0n)], 4_096n)).toBe('incremental');
    expect(due([backup('full', 7, 0n), backup('incremental', 1, 2_900n)], 3_000n)).toBeNull();
  });

  it('takes a full backup after a week', () => {
    const week = [backup('full', 24 * 7 + 1, 0n), backup('incremental', 1, 2_999n)];
    expect(due(week, 3_000n)).toBe('full');
    expect(due([backup('full', 24 * 6, 0n), backup('incremental', 1, 2_999n)], 3_000n)).toBeNull();
  });

  it('leaves a server alone that hardly changes, for however long', () => {
    expect(due([backup('full', 24 * 100, 0n)], 63n)).toBeNull();
    expect(due([backup('full', 24 * 3, 0n)], 63n)).toBeNull();
    expect(due([backup('full', 24 * 100, 0n)], 64n)).toBe('full');
  });
});
