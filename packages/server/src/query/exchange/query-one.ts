// A statement of the service's own in a project's session: catalog look-ups.
import type { ServerError } from '../../postgres/server-error.ts';
import { type Session, silent } from '../../postgres/session.ts';
import { type Command, writeCommands } from './commands.ts';
import { noteOverLimit, StatementFailed, saysOverLimit } from './failures.ts';
import { sqlFailure } from './sql-failure.ts';

/** The first value of the first row. */
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
  /** For a no to one of those before. */
  explain: (error: ServerError, status: StatementFailed['status']) => Error;
}>;

export const statementFailed: OwnFrame['explain'] = (error, status) =>
  new StatementFailed(sqlFailure(error), status);
const noFrame: OwnFrame = { before: [], after: [], explain: statementFailed };

/** `isOurs`: what failed came after the statement, so a state of ours was not raised by code of the project's own. */
function laterFailure(
  failure: ServerError,
  status: StatementFailed['status'],
  isOurs: boolean,
): StatementFailed {
  const reason = sqlFailure(failure);
  if (isOurs && saysOverLimit(failure)) noteOverLimit(reason);
  return new StatementFailed(reason, status);
}

/** The same between others of ours. A `StatementFailed` error leaves the session usable. */
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
  return new Promise((resolve_, reject) => {
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
        if (!failure) resolve_(value);
        else if (step < before.length) reject(explain(failure, status));
        else reject(laterFailure(failure, status, step > before.length));
      },
      lost: reject,
    });
  });
}
