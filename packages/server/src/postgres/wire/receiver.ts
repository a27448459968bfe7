// What a session tells about the answers to an exchange.
import type { ServerError } from './server-error.ts';

/** Receives the answers to one exchange, in PostgreSQL's order. The last call is `ready` or `lost`. */
export type Receiver = {
  rowDescription(bytes: Buffer, start: number, end: number): void;
  parameterTypes(oids: number[]): void;
  noData(): void;
  bound(): void;
  row(bytes: Buffer, start: number, end: number): void;
  /** A part of a row too large to buffer; `left` bytes follow. Without this method, large rows are buffered as well. */
  rowPart?(bytes: Buffer, start: number, end: number, left: number): void;
  /** The command tag, or null if the row limit was reached first. */
  complete(tag: string | null): void;
  error(error: ServerError): void;
  /** COPY switches to its own protocol. Only copy-in.ts and copy-out.ts speak it; to others the connection is useless after this. */
  copy(direction: 'in' | 'out'): void;
  /** A row of COPY … TO STDOUT; a large one comes by `rowPart`. */
  copyData?(bytes: Buffer, start: number, end: number): void;
  /** The backend was terminated and goes on; its transaction has written nothing, and cannot be committed any more. */
  unwritten?(): void;
  ready(status: 'idle' | 'transaction' | 'failed'): void;
  lost(error: Error): void;
};

export const silent: Receiver = {
  rowDescription: () => {},
  parameterTypes: () => {},
  noData: () => {},
  bound: () => {},
  row: () => {},
  complete: () => {},
  error: () => {},
  copy: () => {},
  ready: () => {},
  lost: () => {},
};
