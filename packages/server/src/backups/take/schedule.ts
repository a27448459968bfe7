// Decides when a backup is due. A server that changes little needs none: replaying its WAL takes no longer than restoring
// another backup, and a laptop's disk is not filled with copies of the same data.
import { parseLsn } from '../../postgres/replication/lsn.ts';
import {
  fullAfterMs,
  incrementalAfterBytes,
  incrementalAfterMs,
  unchangedBytes,
} from '../../settings/limits/backups.ts';
import type { BackupDescription } from '../repository/repository.ts';

export type Due = 'full' | 'incremental' | null;

/**
 * `usable`: the backups from which recovery can reach the present, oldest first: those before a gap in the WAL are not.
 * `lsn`: the server's present position.
 */
export function dueBackup(usable: readonly BackupDescription[], lsn: bigint, now: number): Due {
  const last = usable.at(-1);
  const full = usable.findLast(({ kind }) => kind === 'full');
  if (!last || !full) return 'full';
  const since = (backup: BackupDescription) => lsn - parseLsn(backup.end_lsn);
  const age = (backup: BackupDescription) => now - new Date(backup.ended_at).getTime();
  if (age(full) >= fullAfterMs && since(full) >= unchangedBytes) return 'full';
  if (since(last) >= BigInt(incrementalAfterBytes)) return 'incremental';
  return age(last) >= incrementalAfterMs && since(last) >= unchangedBytes ? 'incremental' : null;
}
