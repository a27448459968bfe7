// An answer of the proxy itself to a client: an ErrorResponse of PostgreSQL's protocol.
import type { Refusal } from './counts.ts';

export class ProxyError extends Error {
  override readonly name = 'ProxyError';
  readonly sqlstate: string;
  readonly hint: string | undefined;
  readonly reason: Refusal;

  constructor(
    sqlstate: string,
    message: string,
    { hint, reason = 'startup' }: { hint?: string; reason?: Refusal } = {},
  ) {
    super(message);
    this.sqlstate = sqlstate;
    this.hint = hint;
    this.reason = reason;
  }
}

/** The whole message, with severity FATAL: the connection is closed after it. */
export function errorResponse({ sqlstate, message, hint }: ProxyError): Buffer {
  const fields = [`SFATAL`, `VFATAL`, `C${sqlstate}`, `M${message}`, ...(hint ? [`H${hint}`] : [])];
  const body = Buffer.from(`${fields.join('\0')}\0\0`);
  const head = Buffer.alloc(5);
  head.write('E');
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}
