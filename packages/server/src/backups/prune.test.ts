import { describe, expect, it } from 'vitest';
import { formatLsn } from '../postgres/replication/lsn.ts';
import { planPruning } from './prune.ts';
import type { BackupDescription } from './repository/repository.ts';

const day = 24 * 3_600_000;
const now = Date.parse('2026-11-16T12:00:00Z');

function backup(daysAgo: number, kind: 'full' | 'incremental', parent: BackupDescription | null = null) {
  const at = new Date(now - daysAgo * day).toISOString();
  const description: BackupDescription = {
    format: 1,
    id: `${at}-${kind}`,
    kind,
    parent: parent?.id ?? null,
    cluster: '1',
    timeline: 1,
    postgres: '18.4',
    segment_bytes: 1,
    started_at: at,
    ended_at: at,
    databases: [],
    parts: [],
    start_lsn: formatLsn(BigInt(1000 - daysAgo)),
    end_lsn: formatLsn(BigInt(1000 - daysAgo)),
    manifest: { name: 'manifest', bytes: 1, stored_bytes: 1, sha256: '' },
  };
  return description;
}
const plan = (backups: BackupDescription[]) => planPruning(backups, new Date(now - 7 * day));

describe('pruning', () => {
  it('deletes nothing while no backup is as old as the retention', () => {
    const full = backup(6, 'full');
    expect(plan([full, backup(1, 'incremental', full)])).toMatchObject({ deleted: [], walFrom: null });
    expect(plan([])).toMatchObject({ deleted: [], walFrom: null });
  });

  it('keeps the newest backup before the horizon, and the WAL since it', () => {
    const backups = [backup(20, 'full'), backup(14, 'full'), backup(8, 'full'), backup(1, 'full')];
    const { deleted, walFrom } = plan(backups);
    expect(deleted).toEqual(backups.slice(0, 2));
    expect(walFrom).toEqual({ timeline: 1, lsn: 992n });
  });

  it('keeps every ancestor of a backup that is kept', () => {
    const old = backup(20, 'full');
    const full = backup(13, 'full');
    const first = backup(11, 'incremental', full);
    const second = backup(9, 'incremental', first);
    const third = backup(5, 'incremental', second);
    const { deleted, walFrom } = plan([old, full, first, second, third]);
    expect(deleted).toEqual([old]);
    // Recovery begins with the second one: WAL before it is not needed.
    expect(walFrom?.lsn).toBe(991n);
  });

  it('deletes incremental backups that nothing needs any more', () => {
    const full = backup(20, 'full');
    const first = backup(19, 'incremental', full);
    const next = backup(9, 'full');
    const last = backup(8, 'incremental', next);
    expect(plan([full, first, next, last]).deleted).toEqual([full, first]);
  });

  it('does not rely on a backup whose ancestor is missing', () => {
    const full = backup(20, 'full');
    const orphan = backup(8, 'incremental', backup(10, 'full'));
    const { deleted, walFrom } = plan([full, orphan]);
    expect(deleted).toEqual([]);
    expect(walFrom?.lsn).toBe(980n);
  });

  it('deletes no backup while one whose description cannot be read may need it', () => {
    const [first, second] = [backup(20, 'full'), backup(10, 'full')];
    const lost = backup(9, 'full');
    const third = backup(5, 'incremental', lost);
    const withDamaged = (backups: BackupDescription[], ...damaged: BackupDescription[]) => {
      const ids = damaged.map(({ id }) => id);
      const { deleted, deletedDamaged } = planPruning(backups, new Date(now - 7 * day), ids);
      return [...deleted.map(({ id }) => id), ...deletedDamaged];
    };
    expect(withDamaged([first, second, third])).toEqual([first.id]);
    // Newer than the one that the horizon needs; then older, with one that descends from it; then older and alone.
    expect(withDamaged([first, second], lost)).toEqual([]);
    expect(withDamaged([first, backup(8, 'full'), third], lost)).toEqual([]);
    expect(withDamaged([first, backup(8, 'full')], lost)).toEqual([first.id, lost.id]);
  });

  it('after any sequence of days, every kept backup has its ancestors and the horizon its WAL', () => {
    let backups: BackupDescription[] = [];
    for (let at = 60; at >= 0; at--) {
      const last = backups.at(-1);
      backups.push(at % 7 === 0 || !last ? backup(at, 'full') : backup(at, 'incremental', last));
      const horizon = new Date(now - (at + 7) * day);
      const { deleted, walFrom } = planPruning(backups, horizon);
      backups = backups.filter((one) => !deleted.includes(one));
      const ids = backups.map(({ id }) => id);
      for (const { parent } of backups) expect(parent === null || ids.includes(parent)).toBe(true);
      const base = backups.findLast(({ ended_at }) => new Date(ended_at) <= horizon);
      if (at <= 53) expect(walFrom?.lsn).toBe(BigInt(`0x${base?.start_lsn.split('/')[1]}`));
      expect(backups.length).toBeLessThanOrEqual(15);
    }
  });
});
