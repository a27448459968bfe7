// Whether a program can listen on an address of this machine, and what to do if not.
import { createServer } from 'node:net';
import { EngineError } from '../engine-error.ts';

/** `settings`: those that name the host and the port. */
export type Place = Readonly<{
  host: string;
  port: number;
  settings: Readonly<{ host: string; port: string }>;
}>;

/** The code of the system's error, or null if it is possible. */
export function refusalToListen(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer().once('error', (error: NodeJS.ErrnoException) =>
      resolve(error.code ?? error.message),
    );
    server.listen({ host, port }, () => server.close(() => resolve(null)));
  });
}

/** Throws for the first place that is taken. Port 0 is any free port. */
export async function requireFree(places: readonly Place[]): Promise<void> {
  for (const place of places.filter(({ port }) => port !== 0)) {
    const refusal = await refusalToListen(place.host, place.port);
    if (refusal !== null) throw cannotListen(place, refusal);
  }
}

export function cannotListen({ host, port, settings }: Place, refusal: string): EngineError {
  const hints: Record<string, string> = {
    EADDRINUSE: `Another program uses this port. Set ${settings.port} to another port, or stop that program.`,
    EACCES: `This port requires more privileges. Set ${settings.port} to a port above 1023.`,
    EADDRNOTAVAIL: `This machine does not have this address. Set ${settings.host} to one of its addresses.`,
  };
  const hint = hints[refusal];
  return new EngineError(`Rowhouse cannot listen on ${host}:${port} (${refusal}).`, {
    ...(hint && { hint }),
  });
}
