// What the tag of a completed command says about the tables of its database.

/**
 * Commands that leave all definitions as they are. Any other may change some, and so may a command that is not known yet. SELECT is
 * also what CREATE TABLE AS, SELECT INTO and CREATE MATERIALIZED VIEW report, and EXPLAIN ANALYZE runs them.
 */
const harmless = new Set([
  'INSERT',
  'UPDATE',
  'DELETE',
  'MERGE',
  'COPY',
  'FETCH',
  'MOVE',
  'SHOW',
  'DECLARE CURSOR',
  'CLOSE CURSOR',
  'CLOSE CURSOR ALL',
  'PREPARE',
  'EXECUTE',
  'DEALLOCATE',
  'DEALLOCATE ALL',
  'BEGIN',
  'START TRANSACTION',
  'COMMIT',
  'ROLLBACK',
  'SAVEPOINT',
  'RELEASE',
  'PREPARE TRANSACTION',
  'LISTEN',
  'UNLISTEN',
  'NOTIFY',
  'SET',
  'RESET',
  'SET CONSTRAINTS',
  'DISCARD',
  'DISCARD ALL',
  'LOCK TABLE',
  'VACUUM',
  'ANALYZE',
  'CHECKPOINT',
  'CLUSTER',
  'REINDEX',
  'TRUNCATE TABLE',
  'REFRESH MATERIALIZED VIEW',
]);

/** `tag`: as PostgreSQL sends it, with the number of rows. It says nothing about what a function or a trigger did. */
export function mayChangeDefinitions(tag: string): boolean {
  return !harmless.has(tag.replace(/( \d+)+$/, ''));
}
