// When backups are taken, stored and removed. How long they are kept is the setting ROWHOUSE_BACKUP_DAYS. See docs/backups.md.
import { mb } from '../../lib/bytes.ts';

const hourMs = 60 * 60_000;

/** How often WAL is stored. RPO: at most 2 s to a folder, 5 s to S3. Storing takes its time in addition to the rhythm. */
export const walEveryMs = { folder: 1_000, s3: 2_000 };

/** A full backup is due after this time. */
export const fullAfterMs = 7 * 24 * hourMs;
/** An incremental backup is due after this time, or after so much WAL. */
export const incrementalAfterMs = 6 * hourMs;
export const incrementalAfterBytes = 4 * 1024 * mb;
/** A server that wrote less WAL since its last backup needs no other one. About a second of replay. */
export const unchangedBytes = 64n * BigInt(mb);

/** How often backups and WAL that are no longer needed are removed. */
export const pruneEveryMs = hourMs;
/** Drills run between these hours, by UTC. A machine that sleeps at night has its drill later. */
export const drillHours = { from: 1, to: 5 };

/** Snapshots of a project. */
export const maxSnapshots = 100;
