// How a session can fail other than by losing its connection.
import type { ServerError } from './server-error.ts';

/** A message from PostgreSQL exceeds the size limit. */
export class TooLargeError extends Error {
  override readonly name = 'TooLargeError';
  /** The message was an ErrorResponse. */
  readonly isFailure: boolean;

  constructor(type: number) {
    super(type === 68 ? 'row' : 'message');
    this.isFailure = type === 69;
  }
}

/** PostgreSQL refused the connection with a FATAL error. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';
  readonly sqlstate: string;

  constructor(error: ServerError) {
    super(error.message);
    this.sqlstate = error.state;
  }
}
