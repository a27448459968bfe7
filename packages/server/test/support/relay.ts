// A TCP relay in front of a PostgreSQL server. Everything that reaches the server through it loses the server when the relay is
// cut, or hears nothing more from it when the relay hangs.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export type Relay = Readonly<{
  port: number;
  /** Connections break, and new ones are refused. */
  cut(): void;
  /** Connections stay open, new ones are accepted, and nothing passes. */
  hang(): void;
  mend(): void;
  stop(): Promise<void>;
}>;

/** Sees what passes. `connection` counts them from 0. */
export type Observer = (connection: number, from: 'client' | 'server', bytes: Buffer) => void;

export async function openRelay(to: { host: string; port: number }, observe?: Observer): Promise<Relay> {
  let count = 0;
  let state: 'passing' | 'cut' | 'hanging' = 'passing';
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => sockets.delete(socket));
  };
  const endAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  const relay = createServer((client) => {
    keep(client);
    if (state === 'cut') return void client.destroy();
    if (state === 'hanging') return void client.pause();
    const server = connect(to);
    keep(server);
    const connection = count++;
    if (observe) {
      client.on('data', (bytes) => observe(connection, 'client', bytes));
      server.on('data', (bytes) => observe(connection, 'server', bytes));
    }
    client.pipe(server).pipe(client);
    client.once('close', () => server.destroy());
    server.once('close', () => client.destroy());
  });
  relay.listen(0, '127.0.0.1');
  await once(relay, 'listening');
  return {
    port: (relay.address() as AddressInfo).port,
    cut: () => {
      state = 'cut';
      endAll();
    },
    hang: () => {
      state = 'hanging';
      for (const socket of sockets) socket.unpipe().pause();
    },
    mend: () => {
      state = 'passing';
      endAll();
    },
    stop: async () => {
      endAll();
      relay.close();
      await once(relay, 'close');
    },
  };
}
