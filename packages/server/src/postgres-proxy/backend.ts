// The proxy's connections to PostgreSQL. Always over TCP, never by the Unix socket: that is how the watch over direct
// connections (quotas/direct/direct-sessions-sql.ts) and the login gate distinguish them from the service's own sessions.
import { once } from 'node:events';
import type { Socket } from 'node:net';
import type { Address } from '../postgres/admin/database.ts';
import { connectMs, connectPlain, connectSecure } from '../postgres/wire/connect.ts';
import { ProxyError } from './proxy-error.ts';

export function unavailable(): ProxyError {
  return new ProxyError('57P03', 'the PostgreSQL server of this project is unavailable', {
    hint: 'Try again in a few seconds.',
    reason: 'unavailable',
  });
}

/** `at`: the host to which it is connected. */
export type Backend = Readonly<{ socket: Socket; at: Address }>;

/** `receive` may keep the bytes. Throws a ProxyError if the server cannot be reached. */
export async function connectBackend(
  { socket: _unixSocket, primary, ...address }: Address,
  receive: (bytes: Buffer) => void,
): Promise<Backend> {
  try {
    if (!primary) return { socket: await connect(address, receive), at: address };
    return await primary.connect(async (host) => {
      const at = { ...address, ...host };
      const socket = await connect(at, receive);
      socket.once(
        'close',
        primary.hold(host, () => socket.destroy()),
      );
      return { socket, at };
    });
  } catch {
    throw unavailable();
  }
}

async function connect(address: Address, receive: (bytes: Buffer) => void): Promise<Socket> {
  // An error is followed by 'close', which the caller watches.
  const quiet = (socket: Socket) => socket.on('error', () => {});
  if (address.tls) return quiet(await connectSecure(address)).on('data', receive);
  // A copy: all connections share the memory into which they read.
  const backend = quiet(connectPlain(address, (bytes) => receive(Buffer.from(bytes))));
  const limitMs = address.connectMs ?? connectMs;
  await once(backend, 'connect', { signal: AbortSignal.timeout(limitMs) }).catch((error) => {
    backend.destroy();
    throw error;
  });
  return backend;
}
