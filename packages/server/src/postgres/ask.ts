// A statement of the service's own in a session of a project: its rows as texts, within a time that nothing the project
// has written can stretch.
import { isRaised, type ServerError } from './server-error.ts';
import { type Session, silent } from './session.ts';

export type TextRow = (string | null)[];

/** PostgreSQL refused the statement; the session is fine. */
export class AskError extends Error {
  override readonly name = 'AskError';
  /** Empty where code of the project's chose it: it means nothing then. */
  readonly sqlstate: string;

  constructor(error: ServerError) {
    super(error.message);
    this.sqlstate = isRaised(error) ? '' : error.state;
  }
}

/** All of them together; more is nothing that we ask for. */
const maxBytes = 64 * 1024 * 1024;

type Bounds = {
  timeoutMs: number;
  /** Ends the session by force: a function of the project's can go on after a cancel. */
  terminate: (session: Session) => void;
  signal?: AbortSignal;
};

const patienceMs = 1_000;

/** Rejects with AskError, or with what broke the session. At the deadline it cancels, and a second later terminates. */
export function ask(
  session: Session,
  text: string,
  parameters: readonly (string | null)[],
  { timeoutMs, terminate, signal }: Bounds,
): Promise<TextRow[]> {
  return new Promise((resolve, reject) => {
    const rows: TextRow[] = [];
    let bytesTaken = 0;
    let failure: ServerError | null = null;
    let harder: NodeJS.Timeout | undefined;
    const stop = () => {
      void session.cancel();
      harder ??= setTimeout(() => terminate(session), patienceMs);
    };
    const timer = setTimeout(stop, Math.max(1, timeoutMs));
    signal?.addEventListener('abort', stop, { once: true });
    if (signal?.aborted) stop();
    const end = (act: () => void) => {
      clearTimeout(timer);
      clearTimeout(harder);
      signal?.removeEventListener('abort', stop);
      act();
    };
    session.out.parse('', text).bind('', parameters).execute(0).sync();
    session.send({
      ...silent,
      row: (bytes, start, stopAt) => {
        bytesTaken += stopAt - start;
        if (bytesTaken > maxBytes) terminate(session);
        else rows.push(readRow(bytes, start));
      },
      error: (error) => {
        failure ??= error;
      },
      ready: () =>
        end(() => {
          if (failure) reject(new AskError(failure));
          else resolve(rows);
        }),
      lost: (error) => end(() => reject(error)),
    });
  });
}

function readRow(bytes: Buffer, start: number): TextRow {
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
