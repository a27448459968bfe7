// Bodies that may take longer than a whole request: uploads, whose reader requires a pace instead (transfer/receive/pace.ts).
import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** Connections on which such a body is arriving. Node's time limit for whole requests is ignored on them. */
const uploading = new WeakSet<Socket>();
/** A client that got its response may still be sending. For this long it is listened to, so that it can read the response. */
const lingerMs = 3_000;

export function isUploading(socket: Socket): boolean {
  return uploading.has(socket);
}

/**
 * Runs `read`, which reads the body and holds its client to a pace. Afterwards the connection is closed if the body has not
 * ended: Node reports a request that is overdue only once, so nothing else would cut off a client that goes on trickling.
 */
export async function readUpload<T>(
  { raw, deadline }: FastifyRequest,
  reply: FastifyReply,
  read: () => Promise<T>,
): Promise<T> {
  const { socket } = raw;
  const hasEnded = () => raw.complete || raw.readableEnded;
  // A response that comes before the end of the body must not wait for it.
  reply.raw.once('finish', () => {
    if (hasEnded()) return;
    raw.removeAllListeners('readable');
    setImmediate(() => raw.resume());
    const timer = setTimeout(() => socket.destroy(), lingerMs).unref();
    raw.once('end', () => clearTimeout(timer));
  });
  uploading.add(socket);
  deadline.pause();
  try {
    return await read();
  } finally {
    deadline.resume();
    uploading.delete(socket);
  }
}
