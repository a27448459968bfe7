// Whether a program can listen on an address of this machine.
import { createServer } from 'node:net';

/** The code of the system's error, or null if it is possible. */
export function refusalToListen(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer().once('error', (error: NodeJS.ErrnoException) =>
      resolve(error.code ?? error.message),
    );
    server.listen({ host, port }, () => server.close(() => resolve(null)));
  });
}
