// The error for a caller when a statement of the service itself fails because of the state of the server. It has run out of space,
// memory or connections (class 53). It took too long, because the disk is slow or another statement holds a lock. Or what the
// statement needs is in use at the moment. The error is the same for requests and for jobs.
import { errors, type RowhouseError } from '../../errors/errors.ts';
import { sqlstate } from '../sqlstate.ts';
import { isCatalogConflict, PostgresError } from './database.ts';

/** null: it is another error. */
export function explainResources(thrown: unknown): RowhouseError | null {
  if (isCatalogConflict(thrown)) return errors.unavailable(thrown);
  return thrown instanceof PostgresError ? explainState(thrown.sqlstate, thrown) : null;
}

/** `state`: PostgreSQL's own, not raised by a project's code. The statement was rolled back. */
export function explainState(state: string | undefined, cause: unknown): RowhouseError | null {
  if (state === sqlstate.diskFull) return errors.serverFull(undefined, { cause });
  // Without memory, locks or connections.
  if (state?.startsWith('53')) return errors.unavailable(cause);
  if (state === sqlstate.queryCanceled || state === sqlstate.lockNotAvailable || state === sqlstate.deadlock)
    return errors.tooSlow(cause);
  if (state === sqlstate.objectInUse) return errors.databaseInUse(cause);
  return null;
}
