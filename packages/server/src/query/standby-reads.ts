// Reads that a standby may answer, because the caller allows staleness.

import { errors, RowhouseError } from '../errors/errors.ts';
import { readLsn } from '../postgres/admin/wal-position.ts';
import type { ProjectLogin } from '../servers/databases/login.ts';
import { databaseOf } from '../servers/databases/names.ts';
import { StatementFailed } from './exchange/failures.ts';
import type { Answer } from './exchange/held-answer.ts';
import type { Reader } from './exchange/reader.ts';
import type { ExclusiveDeps, ExclusiveSession } from './sessions/exclusive.ts';
import type { StatementRequest } from './sessions/request.ts';

/** A standby that hangs is noticed by its watch. Meanwhile a request does not wait longer than this for it. */
const checkMs = 1_000;

/**
 * The same request, at a standby. Null: the primary has to answer. Not for acting users: a standby may not know yet that a
 * user has signed out, or that a policy or a grant has changed.
 */
export function atStandby(
  { sessions, profiles }: ExclusiveDeps,
  { project, ...request }: StatementRequest,
): StatementRequest | null {
  const { statement, input } = request;
  if (!input.readOnly || !statement.isRead || project.actingUser) return null;
  const standby = sessions.findStandby(project);
  if (!standby) return null;
  // What is learned from the older catalog of a standby must not count on the primary.
  const profile = profiles.of({ ...project, id: `${project.id} standby` }, statement);
  return { ...request, project: { ...project, standby }, profile };
}

/** Null: the primary has to answer. The standby may be gone, end a read that holds up its replay, or lack a new table. */
export async function unlessOutdated(
  reader: Reader,
  run: () => Promise<Answer>,
): Promise<{ answer: Answer } | null> {
  try {
    return { answer: await run() };
  } catch (error) {
    // On a standby nothing can change: an outcome that is not known is a session that was lost.
    const isLost = error instanceof RowhouseError && ['unavailable', 'outcome_unknown'].includes(error.code);
    const mayDiffer = isLost || (error instanceof RowhouseError && error.sql !== undefined);
    if (!mayDiffer || reader.hasBegun) throw error;
    return null;
  }
}

/**
 * In the session itself, before the statement: the request may have waited for the session, and the database to which it
 * is connected may have another name now (a branch that was promoted, a project that was restored). On the primary that
 * ends all sessions; on a standby it does not.
 */
export async function checkStandby(
  { sessions }: ExclusiveDeps,
  project: ProjectLogin,
  exclusive: ExclusiveSession,
): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(errors.unavailable('The standby does not answer.')), checkMs);
  });
  const here = await Promise.race([exclusive.ask(where, []), late]).finally(() => clearTimeout(timer));
  const [database, lsn] = here?.split(' ') ?? [];
  // The session is closed.
  if (database !== databaseOf(project.id)) throw errors.unavailable('The database was renamed.');
  if (!sessions.isFresh(project, readLsn(lsn) ?? 0))
    throw new StatementFailed(errors.unavailable('The standby is too far behind.'), 'idle');
}

/** Without operators, and with the schema: the project cannot put others in their place. */
const where = `select pg_catalog.concat(pg_catalog.current_database(), ' ', pg_catalog.pg_last_wal_replay_lsn())`;
