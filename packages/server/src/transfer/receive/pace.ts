// The pace of an upload. A large dump takes as long as the client's line needs, so there is no limit on the whole. Instead, a
// minimum has to arrive in each window: a client that trickles or stops is cut off, and gives its place to others.
import { errors } from '../../errors/errors.ts';

export type Pace = Readonly<{ windowMs: number; minBytes: number }>;

/**
 * The pieces of `body`, or an error if they come too slowly. Only the time that is spent waiting for the client counts: not the
 * time in which the service writes. `signal` ends it with its reason. A body that is left early stays open, because the response
 * uses the same connection.
 */
export async function* atPace(
  body: AsyncIterable<Buffer>,
  { windowMs, minBytes }: Pace,
  signal?: AbortSignal,
): AsyncGenerator<Buffer, void> {
  const pieces = body[Symbol.asyncIterator]();
  let leftMs = windowMs;
  let bytes = 0;
  for (;;) {
    const from = performance.now();
    const { value, done } = await inTime(pieces.next(), leftMs, signal);
    if (done) return;
    leftMs -= performance.now() - from;
    bytes += value.length;
    if (bytes >= minBytes) [bytes, leftMs] = [0, windowMs];
    yield value;
  }
}

function inTime<T>(next: Promise<T>, ms: number, signal?: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(errors.uploadTooSlow()), Math.max(0, ms));
    const onAbort = () => reject(signal?.reason);
    if (signal?.aborted) onAbort();
    signal?.addEventListener('abort', onAbort, { once: true });
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    };
    next.then(resolve, reject).finally(end);
  });
}
