// Channel binding ties a login to the TLS connection on which it happens. It cannot work where the service itself ends TLS:
// for a client of the proxy, and for pg_dump as WebAssembly, which believes that its connection is not encrypted and refuses a
// server that offers SCRAM-SHA-256-PLUS. Every server with passwords and TLS offers it, so the offer is removed from the
// server's first messages. Authentication then proceeds by SCRAM-SHA-256, inside TLS.

const sasl = 10;
const plus = 'SCRAM-SHA-256-PLUS';
/** A server that says more than this before it asks for a password is not PostgreSQL; the client finds that out. */
const maxBytes = 16 * 1024;

/** Takes the server's bytes piece by piece, and returns what the client gets. */
export function hideChannelBinding(): (piece: Buffer) => Buffer {
  let waiting: Buffer = Buffer.alloc(0);
  let isOver = false;
  return (piece) => {
    if (isOver) return piece;
    waiting = Buffer.concat([waiting, piece]);
    const passed: Buffer[] = [];
    while (!isOver && waiting.length >= 5) {
      const end = 1 + waiting.readUInt32BE(1);
      if (waiting.length < end && end <= maxBytes) break;
      const kind = String.fromCharCode(waiting[0] as number);
      // NegotiateProtocolVersion comes before the server's question.
      isOver = kind !== 'v' || end > maxBytes || end < 5;
      const message = isOver && kind !== 'R' ? waiting : waiting.subarray(0, end);
      waiting = waiting.subarray(message.length);
      passed.push(kind === 'R' ? withoutPlus(message) : message);
    }
    if (isOver) passed.push(waiting);
    return Buffer.concat(passed);
  };
}

function withoutPlus(message: Buffer): Buffer {
  if (message.length < 9 || message.readUInt32BE(5) !== sasl) return message;
  const names = message.toString('latin1', 9).split('\0');
  if (!names.includes(plus)) return message;
  const left = Buffer.from(names.filter((name) => name !== plus).join('\0'), 'latin1');
  const head = Buffer.from(message.subarray(0, 9));
  head.writeUInt32BE(8 + left.length, 1);
  return Buffer.concat([head, left]);
}
