// Commands of the service in a session that a request has to itself.
import { errors } from '../../errors/errors.ts';
import type { ServerError } from '../../postgres/wire/server-error.ts';
import { type Session, silent } from '../../postgres/wire/session.ts';
import { type Command, writeCommands } from './commands.ts';
import { StatementFailed } from './failures.ts';
import { sqlFailure } from './sql-failure.ts';

export async function command(session: Session, text: string): Promise<void> {
  await tell(session, [text], (error) => new StatementFailed(sqlFailure(error), 'idle'), errors.unavailable);
}

/** Returns the tag of the last command. `onLost`: the error if the session breaks meanwhile. */
export function tell(
  session: Session,
  commands: readonly Command[],
  explain: (error: ServerError, status: StatementFailed['status']) => Error,
  onLost: (cause: unknown) => Error,
): Promise<string | null> {
  writeCommands(session.out, commands);
  session.out.sync();
  return new Promise((resolve, reject) => {
    let failure: ServerError | null = null;
    let last: string | null = null;
    let completed = 0;
    session.send({
      ...silent,
      complete: (tag) => {
        completed++;
        last = tag;
      },
      error: (error) => {
        failure = error;
      },
      ready: (status) => (failure ? reject(explain(failure, status)) : resolve(last)),
      // Terminated before the last command began: nothing of it has happened. During a COMMIT, that is not known.
      lost: (error) =>
        reject(failure && completed < commands.length - 1 ? errors.unavailable(error) : onLost(error)),
    });
  });
}
