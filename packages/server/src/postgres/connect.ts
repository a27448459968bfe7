// The way to PostgreSQL: a socket or an address, in the clear or by TLS.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Address } from './database.ts';

export const connectMs = 5_000;

/** Everything that PostgreSQL says is read into this one piece of memory, and used or copied before the next is. */
export const inbox = Buffer.allocUnsafeSlow(128 * 1024);

export function connectPlain(address: Address, receive: (bytes: Buffer) => void): Socket {
  const callback = (size: number) => {
    receive(inbox.subarray(0, size));
    return true;
  };
  return connect({ ...placeOf(address), ...lively, onread: { buffer: inbox, callback } });
}

const lively = { noDelay: true, keepAlive: true };

export function placeOf({ host, port, socket }: Address): { path: string } | { host: string; port: number } {
  return socket ? { path: socket } : { host, port };
}

/** The protocol's own way to TLS: a question in the clear, one byte of answer, then the handshake. */
export async function secure(address: Address): Promise<Socket> {
  const { host, tls } = address;
  const plain = connect({ ...placeOf(address), ...lively });
  plain.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]));
  const [answer] = (await once(plain, 'data', { signal: AbortSignal.timeout(connectMs) })) as [Buffer];
  if (answer.toString('latin1') !== 'S') {
    plain.destroy();
    throw new Error('This PostgreSQL does not speak TLS, and sslmode asks for it.');
  }
  const socket = connectTls({ socket: plain, servername: host, ...tls });
  await once(socket, 'secureConnect', { signal: AbortSignal.timeout(connectMs) });
  return socket;
}
