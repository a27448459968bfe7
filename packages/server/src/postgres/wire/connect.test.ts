import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { connectSecure } from './connect.ts';

/** Gives the server's end of the one connection. */
async function listen(onData: (socket: Socket) => void) {
  const server = createServer();
  onTestFinished(() => void server.close());
  const accepted = new Promise<Socket>((resolve) => {
    server.once('connection', (socket) => {
      socket.on('error', () => {});
      socket.once('data', () => onData(socket));
      resolve(socket);
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as { port: number };
  const address = { host: '127.0.0.1', port, user: 'ada', password: '', database: 'tea' };
  return { accepted, address: { ...address, tls: { rejectUnauthorized: false } } };
}

it.concurrent.each([
  ['says nothing', () => {}],
  ['does not go on after its reply', (socket: Socket) => void socket.write('S')],
  ['has no TLS', (socket: Socket) => void socket.write('N')],
  ['ends the handshake', (socket: Socket) => void socket.write('S', () => socket.resetAndDestroy())],
])('a server that %s is refused, and its connection is closed', async (_what, answer) => {
  const { accepted, address } = await listen(answer);
  const closed = accepted.then(async (socket) => {
    if (!socket.closed) await once(socket.resume(), 'close');
  });
  await expect(connectSecure(address)).rejects.toThrow();
  await closed;
});
