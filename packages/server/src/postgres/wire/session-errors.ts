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

/** The host is a standby, where a primary is needed. */
export class StandbyError extends Error {
  override readonly name = 'StandbyError';

  constructor() {
    super('the host is a standby and does not accept writes');
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

/** The connection was cut after its backend was terminated. Until then its transaction had written nothing, and it cannot commit. */
export class UnwrittenError extends Error {
  override readonly name = 'UnwrittenError';

  constructor() {
    super('the backend was terminated before it wrote anything');
  }
}
