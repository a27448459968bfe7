// Where the proxy reaches PostgreSQL by TLS, it removes the offer of channel binding (postgres/wire/channel-binding.ts). A
// client that supports it then says that it was not offered. PostgreSQL takes that for an attack, rightly, and the client's
// words are part of what it signs. So such a client is told what to do instead.
import { ProxyError } from './proxy-error.ts';

const saslInitial = 112;
const mechanism = 'SCRAM-SHA-256';

/** For bytes from the client, after the startup packet. Returns what to pass on, or throws. */
export function openFlagCheck(): (bytes: Buffer) => Buffer {
  /** The type and the length of the message, the mechanism, and the length of what the client says. */
  const flagAt = 5 + mechanism.length + 1 + 4;
  let held = Buffer.alloc(0);
  let isOver = false;
  return (bytes) => {
    if (isOver) return bytes;
    held = Buffer.concat([held, bytes]);
    if (held[0] === saslInitial && held.length <= flagAt) return Buffer.alloc(0);
    isOver = true;
    if (held[0] === saslInitial && held[flagAt] === 'y'.charCodeAt(0)) {
      throw new ProxyError('28000', 'channel binding is not available for this server', {
        hint: 'Add channel_binding=disable to the connection string.',
        reason: 'password',
      });
    }
    return held;
  };
}
