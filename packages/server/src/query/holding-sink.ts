// For what may yet be undone: no result of it is shown before it is committed.
import { errors } from '../errors.ts';
import type { Sink } from './exchange.ts';

const maxHeldBytes = 64 * 1024 * 1024;

/** Keeps what is written until a transaction is committed: no result is shown of what may yet be undone. */
export function holdingSink(): Sink & { pieces: Buffer[]; write(bytes: Buffer): boolean } {
  const pieces: Buffer[] = [];
  let size = 0;
  return {
    pieces,
    write: (bytes) => {
      size += bytes.length;
      if (size > maxHeldBytes) throw errors.resultTooLarge('The result is larger than 64 MB.');
      return pieces.push(bytes) > 0;
    },
    drained: () => {},
  };
}
