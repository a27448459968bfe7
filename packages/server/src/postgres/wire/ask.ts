// Runs one of the service's own statements in a session that the caller has opened, and returns its rows as text. Code that the
// project has written cannot extend the deadline. When to use it: src/postgres/README.md.
import { isRaised, type ServerError } from './server-error.ts';
import { type Session, silent } from './session.ts';

export type TextRow = (string | null)[];

/** PostgreSQL refused the statement. The session is still usable. */
export class AskError extends Error {
  override readonly name = 'AskError';
  /** Empty if the project's code chose it, because it means nothing then. */
  readonly sqlstate: string;

  constructor(error: ServerError) {
    super(error.message);
    this.sqlstate = isRaised(error) ? '' : error.state;
  }
}

/** Limit for all rows together. No statement of the service needs more. */
const maxBytes = 64 * 1024 * 1024;

type Bounds = {
  timeoutMs: number;
  /** Ends the session by force: a function of the project can continue after a cancel. */
  terminate: (session: Session) => void;
  signal?: AbortSignal;
};

const terminateAfterMs = 1_000;

/** Rejects with AskError, or with the error that broke the session. Cancels at the deadline, and terminates 1 s later. */
export function ask(
  session: Session,
  text: string,
  parameters: readonly (string | null)[],
  { timeoutMs, terminate, signal }: Bounds,
): Promise<TextRow[]> {
  return new Promise((resolve, reject) => {
    const rows: TextRow[] = [];
    let receivedBytes = 0;
    let failure: ServerError | null = null;
    let terminateTimer: NodeJS.Timeout | undefined;
    const stop = () => {
      void session.cancel();
      terminateTimer ??= setTimeout(() => terminate(session), terminateAfterMs);
    };
    const timer = setTimeout(stop, Math.max(1, timeoutMs));
    signal?.addEventListener('abort', stop, { once: true });
    if (signal?.aborted) stop();
    const finish = (settle: () => void) => {
      clearTimeout(timer);
      clearTimeout(terminateTimer);
      signal?.removeEventListener('abort', stop);
      settle();
    };
    session.out.parse('', text).bind('', parameters).execute(0).sync();
    session.send({
      ...silent,
      row: (bytes, start, stopAt) => {
        receivedBytes += stopAt - start;
        if (receivedBytes > maxBytes) terminate(session);
        else rows.push(readRow(bytes, start));
      },
      error: (error) => {
        failure ??= error;
      },
      ready: () =>
        finish(() => {
          if (failure) reject(new AskError(failure));
          else resolve(rows);
        }),
      lost: (error) => finish(() => reject(error)),
    });
  });
}

export function readRow(bytes: Buffer, start: number): TextRow {
  const row: TextRow = [];
  let at = start + 2;
  for (let left = bytes.readUInt16BE(start); left > 0; left--) {
    const size = bytes.readInt32BE(at);
    at += 4;
    row.push(size < 0 ? null : bytes.toString('utf8', at, at + size));
    at += Math.max(0, size);
  }
  return row;
}
