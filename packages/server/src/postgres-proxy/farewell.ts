// PostgreSQL ends a session with "terminating connection due to administrator command". While a project is moved to another
// server, copied or exchanged, the proxy sends the reason instead.
import { errorResponse, ProxyError } from './proxy-error.ts';

const [error, ready] = [69, 90];
/** ReadyForQuery: its kind, its length, and the state of the transaction. */
const readyBytes = 6;
const longest = 4096;

/**
 * Returns a function that tells whether bytes of PostgreSQL are nothing but the end of the session. Only behind a ReadyForQuery:
 * there a message begins for certain, and bytes of a row cannot be mistaken for it.
 */
export function openFarewellCheck(): (bytes: Buffer) => boolean {
  let isBetween = true;
  return (bytes) => {
    const isFarewell = isBetween && bytes[0] === error && isEnd(bytes);
    const end = bytes.length - readyBytes;
    isBetween = end >= 0 && bytes[end] === ready && bytes.readInt32BE(end + 1) === readyBytes - 1;
    return isFarewell;
  };
}

function isEnd(bytes: Buffer): boolean {
  if (bytes.length > longest || bytes.length < 6 || bytes.readInt32BE(1) !== bytes.length - 1) return false;
  const fields = bytes.toString('latin1', 5).split('\0');
  return fields.includes('VFATAL') && fields.includes('C57P01');
}

/** Why PostgreSQL ends the sessions of a project. `held`: a branch, a reset, a promotion or a restore needs its database. */
export type EndReason = 'moving' | 'held';

const reasons: Record<EndReason, string> = {
  moving: 'this project is moving to another server',
  held: 'this project is being branched, reset, promoted or restored',
};

/** The same state as PostgreSQL's: clients and their pools know that they can connect again. */
export function farewell(reason: EndReason): Buffer {
  return errorResponse(
    new ProxyError('57P01', `${reasons[reason]}, so the connection was closed`, { hint: 'Connect again.' }),
  );
}
