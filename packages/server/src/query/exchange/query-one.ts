// Runs one of the service's own statements in a session of the pool that a request has taken already: the request's deadline holds
// for it. When to use it: src/postgres/README.md.
import type { ServerError } from '../../postgres/wire/server-error.ts';
import { type Session, silent } from '../../postgres/wire/session.ts';
import { type Command, writeCommands } from './commands.ts';
import { noteOverLimit, StatementFailed, saysOverLimit } from './failures.ts';
import { sqlFailure } from './sql-failure.ts';

/** Returns the first value of the first row. */
export function queryOne(
  session: Session,
  query: string,
  parameters: (string | null)[],
): Promise<string | null> {
  return queryFramed(session, query, parameters, noFrame).catch((error) => {
    throw error instanceof StatementFailed ? error.reason : error;
  });
}

export type OwnFrame = Readonly<{
  before: readonly Command[];
  after: readonly Command[];
  /** The error for a failure of one of the commands before. */
  explain: (error: ServerError, status: StatementFailed['status']) => Error;
}>;

export const statementFailed: OwnFrame['explain'] = (error, status) =>
  new StatementFailed(sqlFailure(error), status);
const noFrame: OwnFrame = { before: [], after: [], explain: statementFailed };

/** `isOurs`: the failure came after the statement, so the project's code did not raise it. */
function laterFailure(
  failure: ServerError,
  status: StatementFailed['status'],
  isOurs: boolean,
): StatementFailed {
  const reason = sqlFailure(failure);
  if (isOurs && saysOverLimit(failure)) noteOverLimit(reason);
  return new StatementFailed(reason, status);
}

/** Like queryOne, with other commands before and after it. After a `StatementFailed` the session is usable. */
export function queryFramed(
  session: Session,
  query: string,
  parameters: (string | null)[],
  { before, after, explain }: OwnFrame,
): Promise<string | null> {
  const { out } = session;
  writeCommands(out, before);
  out.parse('', query).bind('', parameters).execute(1);
  writeCommands(out, after);
  out.sync();
  return new Promise((resolve, reject) => {
    let value: string | null = null;
    let failure: ServerError | null = null;
    let step = 0;
    session.send({
      ...silent,
      row: (bytes, start) => {
        if (step !== before.length) return;
        const size = bytes.readInt32BE(start + 2);
        value = size < 0 ? null : bytes.toString('utf8', start + 6, start + 6 + size);
      },
      complete: () => {
        step++;
      },
      error: (error) => {
        failure = error;
      },
      ready: (status) => {
        if (!failure) resolve(value);
        else if (step < before.length) reject(explain(failure, status));
        else reject(laterFailure(failure, status, step > before.length));
      },
      lost: reject,
    });
  });
}
