// The reserve: space that is kept free below a project's limit.
import { mb } from '../lib/bytes.ts';
import { sql } from '../postgres/sql.ts';

/** A table that is being rewritten is on disk twice until the commit. Up to this size that is allowed, even over the limit. */
export const rewriting = 28 * mb;

/**
 * What VACUUM can leave of a refused statement: it truncates a table only if the empty end has 8 MB or a sixteenth of it.
 * Small tables are rewritten instead (reclaiming/reclaim.ts).
 */
function tailOf(limit: number): number {
  return limit > rewriting ? Math.min(8 * mb, limit / 16) : 0;
}

/** For a project of any size: VACUUM adds 32 kB to a table and 24 kB to an index, ANALYZE adds some rows of statistics. */
const maps = 128 * 1024;

/**
 * In a full project, statements that add rows may use free space inside its tables while its size is below this. The rest is
 * for maintenance: PostgreSQL fills a rebuilt B-tree to 90 %, so a fuller one grows by a tenth when its table is rewritten.
 */
export function capOf(limit: number): number {
  return limit - Math.max(Math.min(limit, rewriting) / 10 + maps, tailOf(limit));
}

/** Includes the few pages that statements need which free space. */
export function reserveOf(limit: number): number {
  return Math.max(Math.min(limit, rewriting) / 8 + maps, Math.min(mb, limit / 16) + tailOf(limit));
}

/** Whether statements that add data are refused. */
export function isFull(storedBytes: number, limitMb: number): boolean {
  return storedBytes > limitMb * mb - reserveOf(limitMb * mb);
}

/** The same for a row of `projects`. It must match the index in migrations/control/0014_projects_to_note.sql. */
export const isFullRow = sql`(
  size_bytes - empty_bytes > limit_mb * bigint '1048576' - greatest(least(limit_mb, 28) * bigint '131072' + 131072,
    case when limit_mb > 28 then bigint '1048576' + least(8388608, limit_mb * bigint '65536') else 0 end))`;
