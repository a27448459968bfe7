// Asks PostgreSQL to cancel the running statement of a session, on a separate connection as the protocol requires.
import { connect } from 'node:net';
import { endpointOf } from './connect.ts';
import { FrontendMessages } from './frontend-messages.ts';
import type { ServerAddress } from './server-address.ts';

/** Resolves when PostgreSQL has taken the request. The statement may still run for a moment. */
export function requestCancel(address: ServerAddress, pid: number, secret: Buffer): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(endpointOf(address));
    socket.setTimeout(2_000, () => socket.destroy());
    socket.on('error', () => {});
    socket.on('close', () => resolve());
    socket.end(new FrontendMessages().cancel(pid, secret).take());
  });
}
