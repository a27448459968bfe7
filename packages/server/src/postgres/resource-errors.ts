// The error for a caller when a statement of the service itself meets a server that has run out of something (class 53). It is
// the same for requests and for jobs.
import { errors, type RowhouseError } from '../errors.ts';
import { isState, PostgresError } from './database.ts';
import { sqlstate } from './sqlstate.ts';

/** null: it is another error. */
export function explainResources(thrown: unknown): RowhouseError | null {
  if (isState(thrown, sqlstate.diskFull)) return errors.serverFull(undefined, { cause: thrown });
  // Without memory, locks or connections.
  if (thrown instanceof PostgresError && thrown.sqlstate.startsWith('53')) return errors.unavailable(thrown);
  return null;
}
