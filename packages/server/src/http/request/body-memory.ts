// Request bodies that are read into memory. Their memory is counted per account and for the process, so that a body
// that exceeds the budget is refused while it arrives, and not when memory has run out.

import type { IncomingHttpHeaders } from 'node:http';
import { finished, type Readable } from 'node:stream';
import { errors } from '../../errors/errors.ts';
import { MemoryBudget } from '../../lib/memory-budget.ts';
import { bodyMemoryBytes } from '../../settings/limits/requests.ts';

const bodyMemory = new MemoryBudget({ perHolder: bodyMemoryBytes.perAccount, total: bodyMemoryBytes.inAll });
/** How often a body's bytes are in memory: as they came, as text, and on their way to PostgreSQL. */
const bytesFactor = 3;
/** For each value in a body. */
const valueBytes = 50;
/** Smaller bodies are not counted. */
const uncounted = 64 * 1024;

/** The memory of one request. It is held until the response is sent, because the parsed body lives as long. */
export class BodyMemory {
  private counted = 0;
  private isOver = false;
  private isHandled = false;
  private readonly owner: string;
  private readonly onEnd: (over: () => void) => void;

  /** `owner`: the account, so that what its projects send together leaves room for others. `onEnd` calls back at the end of the response. */
  constructor(owner: string, onEnd: (over: () => void) => void) {
    this.owner = owner;
    this.onEnd = onEnd;
  }

  addBytes(bytes: number): void {
    this.add(bytes * bytesFactor);
  }

  addValues(count: number): void {
    this.add(count * valueBytes);
  }

  /** A caller who hangs up does not end the work, which may still wait for its turn: until it ends, the body counts. */
  async countDuring<T>(work: () => T): Promise<Awaited<T>> {
    if (this.isOver) throw errors.requestTimeout();
    this.isHandled = true;
    try {
      return await work();
    } finally {
      this.isHandled = false;
      if (this.isOver) this.release();
    }
  }

  private add(bytes: number): void {
    // The caller has disconnected. Memory that is counted now would never be released.
    if (this.isOver) throw errors.requestTimeout();
    if (!bodyMemory.take(this.owner, bytes))
      throw errors.overloaded('The memory for large request bodies is used up.', 1);
    const isFirst = this.counted === 0;
    this.counted += bytes;
    if (!isFirst) return;
    this.onEnd(() => {
      this.isOver = true;
      if (!this.isHandled) this.release();
    });
  }

  private release(): void {
    bodyMemory.take(this.owner, -this.counted);
    this.counted = 0;
  }
}

type Given = { headers: IncomingHttpHeaders; maxBytes: number; memory: BodyMemory };

export function readBody(payload: Readable, { headers, maxBytes, memory }: Given): Promise<Buffer> {
  // The caller hung up while the request was identified: nobody would be told of anything any more.
  if (payload.destroyed) return Promise.reject(errors.requestTimeout());
  const declared = headers['content-length'] === undefined ? null : Number(headers['content-length']);
  if (declared !== null && declared > maxBytes)
    return passOver(payload).then(() => Promise.reject(errors.payloadTooLarge(maxBytes)));
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = [];
    let size = 0;
    let counted = 0;
    const onData = (piece: Buffer) => {
      pieces.push(piece);
      size += piece.length;
      try {
        if (size > maxBytes) throw errors.payloadTooLarge(maxBytes);
        if (size > uncounted) {
          memory.addBytes(size - counted);
          counted = size;
        }
      } catch (error) {
        fail(error as Error);
      }
    };
    const fail = (error: Error) => {
      stop();
      pieces.length = 0;
      reject(error);
      // The rest of the body is discarded, so that the client gets to read the response.
      payload.resume();
    };
    const onEnd = () => {
      stop();
      resolve(pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces));
    };
    const stop = () => {
      payload.off('data', onData);
      payload.off('end', onEnd);
      payload.off('error', fail);
    };
    payload.on('data', onData);
    payload.on('end', onEnd);
    payload.on('error', fail);
  });
}

/**
 * Most clients read only after they have sent everything: they would lose a response that comes earlier and is followed
 * by the end of the connection. A client that sends for longer than `passOverMs` gets the response anyway.
 */
function passOver(payload: Readable): Promise<void> {
  return new Promise((resolve) => {
    const late = setTimeout(resolve, passOverMs);
    finished(payload, { writable: false }, () => {
      clearTimeout(late);
      resolve();
    });
    payload.resume();
  });
}
const passOverMs = 3_000;
