// Opens the connection to PostgreSQL: Unix socket or TCP, with or without TLS.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { ServerAddress } from './server-address.ts';

export const connectMs = 5_000;

/** Shared by all connections without TLS. Its content must be used or copied before the next read overwrites it. */
export const readBuffer = Buffer.allocUnsafeSlow(128 * 1024);

export function connectPlain(address: ServerAddress, receive: (bytes: Buffer) => void): Socket {
  const callback = (size: number) => {
    receive(readBuffer.subarray(0, size));
    return true;
  };
  return connect({ ...endpointOf(address), ...socketOptions, onread: { buffer: readBuffer, callback } });
}

const socketOptions = { noDelay: true, keepAlive: true };

/** The address of one host: the primary, as far as it is known. */
export function atPrimary(address: ServerAddress): Omit<ServerAddress, 'primary'> {
  const { primary, ...rest } = address;
  return primary ? { ...rest, ...primary.host } : address;
}

export function endpointOf(address: ServerAddress): { path: string } | { host: string; port: number } {
  const { host, port, socket } = atPrimary(address);
  return socket ? { path: socket } : { host, port };
}

/**
 * TLS as the protocol defines it: an SSLRequest in clear text, a reply of one byte, then the handshake. The server can be a
 * stranger's (an import), so a failure leaves no open socket, and none whose later error would end the process.
 */
export async function connectSecure(address: ServerAddress): Promise<Socket> {
  const { host, tls, connectMs: limitMs = connectMs } = atPrimary(address);
  const plain = quiet(connect({ ...endpointOf(address), ...socketOptions }));
  try {
    plain.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]));
    const [answer] = (await once(plain, 'data', { signal: AbortSignal.timeout(limitMs) })) as [Buffer];
    if (answer.toString('latin1') !== 'S')
      throw new Error('The PostgreSQL server does not support TLS, but sslmode requires it.');
    const socket = quiet(connectTls({ socket: plain, servername: host, ...tls }));
    await once(socket, 'secureConnect', { signal: AbortSignal.timeout(limitMs) }).catch((error) => {
      socket.destroy();
      throw error;
    });
    return socket;
  } catch (error) {
    plain.destroy();
    throw error;
  }
}

/** An error is followed by 'close'. */
function quiet<T extends Socket>(socket: T): T {
  return socket.on('error', () => {});
}
