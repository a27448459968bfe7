// How a session with PostgreSQL can fail besides being lost.
import type { ServerError } from './server-error.ts';

/** A message from PostgreSQL that is larger than we take in. */
export class TooLargeError extends Error {
  override readonly name = 'TooLargeError';
  /** PostgreSQL says by it that it has failed. */
  readonly isFailure: boolean;

  constructor(type: number) {
    super(type === 68 ? 'row' : 'message');
    this.isFailure = type === 69;
  }
}

/** PostgreSQL refused the connection: FATAL, with its state. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';
  readonly sqlstate: string;

  constructor(error: ServerError) {
    super(error.message);
    this.sqlstate = error.state;
  }
}
