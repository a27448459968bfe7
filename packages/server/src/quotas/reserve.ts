// What is kept free below a project's limit.
import { sql } from '../postgres/sql.ts';

const mb = 1024 * 1024;

/** A table that is rewritten lies on disk twice until that is committed: up to this size it may, over the limit as well. */
export const rewriting = 28 * mb;

/**
 * What VACUUM can leave of a refused statement: it cuts off the end of a table only from 8 MB or a sixteenth of it on.
 * Tables that are small enough are rewritten instead (reclaim.ts).
 */
function tailOf(limit: number): number {
  return limit > rewriting ? Math.min(8 * mb, limit / 16) : 0;
}

/** However small the project is: VACUUM adds 32 kB to a table and 24 kB to an index, ANALYZE some rows of statistics. */
const maps = 128 * 1024;

/**
 * Below this what adds rows may use free space within the tables of a full project. The rest is for upkeep: PostgreSQL
 * fills a rebuilt B-tree to 90 %, so a fuller one grows by a tenth when its table is rewritten.
 */
export function capOf(limit: number): number {
  return limit - Math.max(Math.min(limit, rewriting) / 10 + maps, tailOf(limit));
}

/** With what makes room: it needs a page here and there. */
export function reserveOf(limit: number): number {
  return Math.max(Math.min(limit, rewriting) / 8 + maps, Math.min(mb, limit / 16) + tailOf(limit));
}

/** Nothing that adds to it is let in any more. */
export function isFull(storedBytes: number, limitMb: number): boolean {
  return storedBytes > limitMb * mb - reserveOf(limitMb * mb);
}

/** The same of a row of `projects`, as the index in migrations/control/0007_over_limit.sql has it. */
export const isFullRow = sql`(
  size_bytes - empty_bytes > limit_mb * bigint '1048576' - greatest(least(limit_mb, 28) * bigint '131072' + 131072,
    case when limit_mb > 28 then bigint '1048576' + least(8388608, limit_mb * bigint '65536') else 0 end))`;
