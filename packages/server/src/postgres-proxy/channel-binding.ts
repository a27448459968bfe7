// Channel binding ties a login to the TLS connection on which it happens. Where the proxy reaches PostgreSQL by TLS, the client
// and PostgreSQL see two different TLS connections, so it cannot work. PostgreSQL offers it nevertheless, so the offer is
// removed. A client that supports it then says that it was not offered. PostgreSQL takes that for an attack, rightly, and the
// client's words are part of what it signs. So such a client is told what to do instead.
import { ProxyError } from './proxy-error.ts';

const message = { authentication: 82, negotiateVersion: 118, saslInitial: 112 };
const authenticationSasl = 10;
const [plain, bound] = ['SCRAM-SHA-256', 'SCRAM-SHA-256-PLUS'];

/** For bytes from PostgreSQL. Returns what to pass on; holds bytes back until the offer is complete. */
export function openOfferFilter(): (bytes: Buffer) => Buffer {
  let held = Buffer.alloc(0);
  let isOver = false;
  return (bytes) => {
    if (isOver) return bytes;
    held = Buffer.concat([held, bytes]);
    const done: Buffer[] = [];
    for (;;) {
      const length = held.length < 5 ? Number.POSITIVE_INFINITY : 1 + held.readUInt32BE(1);
      if (held.length < length) return Buffer.concat(done);
      const first = held.subarray(0, length);
      held = held.subarray(length);
      done.push(withoutBinding(first));
      if (first[0] === message.negotiateVersion) continue;
      isOver = true;
      return Buffer.concat([...done, held]);
    }
  };
}

function withoutBinding(first: Buffer): Buffer {
  const isOffer =
    first[0] === message.authentication && first.length > 9 && first.readInt32BE(5) === authenticationSasl;
  if (!isOffer) return first;
  const mechanisms = first.toString('latin1', 9).split('\0');
  const rest = Buffer.from(mechanisms.filter((name) => name !== bound).join('\0'), 'latin1');
  const head = Buffer.from(first.subarray(0, 9));
  head.writeUInt32BE(rest.length + 8, 1);
  return Buffer.concat([head, rest]);
}

/** For bytes from the client, after the startup packet. Returns what to pass on, or throws. */
export function openFlagCheck(): (bytes: Buffer) => Buffer {
  /** The type and the length of the message, the mechanism, and the length of what the client says. */
  const flagAt = 5 + plain.length + 1 + 4;
  let held = Buffer.alloc(0);
  let isOver = false;
  return (bytes) => {
    if (isOver) return bytes;
    held = Buffer.concat([held, bytes]);
    if (held[0] === message.saslInitial && held.length <= flagAt) return Buffer.alloc(0);
    isOver = true;
    if (held[0] === message.saslInitial && held[flagAt] === 'y'.charCodeAt(0)) {
      throw new ProxyError('28000', 'channel binding is not available for this server', {
        hint: 'Add channel_binding=disable to the connection string.',
        reason: 'password',
      });
    }
    return held;
  };
}
