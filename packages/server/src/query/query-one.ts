// A statement of the service's own in a project's session: catalog look-ups.
import type { ServerError } from '../postgres/server-error.ts';
import { type Session, silent } from '../postgres/session.ts';
import { sqlFailure } from './sql-failure.ts';

/** The first value of the first row. */
export function queryOne(
  session: Session,
  query: string,
  parameters: (string | null)[],
): Promise<string | null> {
  return new Promise((resolve_, reject) => {
    let value: string | null = null;
    let failure: ServerError | null = null;
    session.out.parse('', query).bind('', parameters).execute(1).sync();
    session.send({
      ...silent,
      row: (bytes, start) => {
        const size = bytes.readInt32BE(start + 2);
        value = size < 0 ? null : bytes.toString('utf8', start + 6, start + 6 + size);
      },
      error: (error) => {
        failure = error;
      },
      ready: () => (failure ? reject(sqlFailure(failure)) : resolve_(value)),
      lost: reject,
    });
  });
}
