// Passes bytes between a client and PostgreSQL. Backpressure instead of memory: when one side does not read, the other is
// no longer read either, and PostgreSQL waits as it would for a slow client.
import type { Socket } from 'node:net';

/** How much waits for a slow reader in this process. The kernel's buffers come on top. */
const maxWaitingBytes = 128 * 1024;
/** How long one side may take to read the rest after the other side has closed the connection. */
const lastBytesMs = 10_000;

/** Writes `bytes`, and pauses `from` while too much waits. `bytes` must not change later. */
export function pass(from: Socket, to: Socket, bytes: Buffer): void {
  to.write(bytes);
  // Not the return value of write: it is false for each large piece, even if the kernel has taken it.
  if (to.writableLength <= maxWaitingBytes || from.isPaused()) return;
  from.pause();
  to.once('drain', () => from.resume());
}

/** When one side closes, the other is closed once it has what was sent before. Calls `onClosed` when both are closed. */
export function closeTogether(client: Socket, backend: Socket, onClosed: () => void): void {
  let open = 2;
  const closed = () => {
    if (--open === 0) onClosed();
  };
  for (const [one, other] of [
    [client, backend],
    [backend, client],
  ] as const) {
    one.on('error', () => {});
    one.once('end', () => closeSoon(other));
    one.once('close', () => {
      closeSoon(other);
      closed();
    });
  }
}

/** Closes the connection after everything that was written has been sent, or after a while. */
export function closeSoon(socket: Socket): void {
  if (socket.destroyed) return;
  const cut = setTimeout(() => socket.destroy(), lastBytesMs).unref();
  socket.once('close', () => clearTimeout(cut));
  // Otherwise a paused socket is never found to be closed.
  socket.resume();
  socket.destroySoon();
}
