// COPY … TO STDOUT: rows as PostgreSQL writes them, at the pace of the reader.
import { AskError } from './ask.ts';
import { Pieces } from './pieces.ts';
import type { ServerError } from './server-error.ts';
import { type Session, silent } from './session.ts';

const pieceBytes = 64 * 1024;
/** Bytes that may wait for the reader before PostgreSQL is stopped. */
const waitingBytes = 256 * 1024;

/**
 * Rejects with AskError, or with what broke the session. A reader that leaves early leaves a session of no use. The memory of a
 * piece is reused as soon as the next one is asked for.
 */
export async function* copyOut(session: Session, text: string): AsyncGenerator<Buffer> {
  let waiting = 0;
  let piece = Buffer.allocUnsafeSlow(pieceBytes);
  const free: Buffer<ArrayBuffer>[] = [];
  let filled = 0;
  let failure: ServerError | null = null;
  let isOver = false;
  const pieces = new Pieces<Buffer>((size, { buffer }) => {
    waiting -= size;
    free.push(Buffer.from(buffer as ArrayBuffer));
    if (waiting < waitingBytes) session.resume();
  });
  const hand = () => {
    if (filled === 0) return;
    waiting += filled;
    pieces.push(piece.subarray(0, filled));
    piece = free.pop() ?? Buffer.allocUnsafeSlow(pieceBytes);
    filled = 0;
    if (waiting >= waitingBytes) session.pause();
  };
  const keep = (bytes: Buffer, start: number, end: number) => {
    for (let at = start; at < end; ) {
      const size = bytes.copy(piece, filled, at, end);
      filled += size;
      at += size;
      if (filled === pieceBytes) hand();
    }
  };
  session.out.parse('', text).bind('', []).execute(0).sync();
  session.send({
    ...silent,
    copyData: keep,
    rowPart: keep,
    error: (error) => {
      failure ??= error;
    },
    ready: () => {
      isOver = true;
      hand();
      if (failure) pieces.fail(new AskError(failure));
      else pieces.end();
    },
    lost: (error) => {
      isOver = true;
      pieces.fail(error);
    },
  });
  try {
    yield* pieces;
  } finally {
    if (!isOver) session.destroy();
  }
}
