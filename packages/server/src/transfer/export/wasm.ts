// pg_dump without an installation: the WebAssembly of pg_dump 18 in a thread of its own. The socket to PostgreSQL stays
// here, because a thread that is inside WebAssembly has no event loop.

import { connect, type Socket } from 'node:net';
import { MessageChannel, Worker } from 'node:worker_threads';
import { compiledFile } from '../../lib/compiled-file.ts';
import type { Address } from '../../postgres/admin/database.ts';
import { hideChannelBinding } from '../../postgres/wire/channel-binding.ts';
import { connectSecure, endpointOf } from '../../postgres/wire/connect.ts';
import { Pieces } from '../../postgres/wire/pieces.ts';
import { maxDumpMemoryMb } from '../../settings/limits/exports.ts';
import { DumpError, type DumpRun } from './pg-dump.ts';
import { distance, ringBytes, slot, slots, type WorkerInput, type WorkerMessage } from './wasm-channel.ts';

/**
 * The dump as it comes. Ends its thread and its connection however it ends. The memory of a piece is reused as soon as the next one
 * is asked for.
 */
export async function* dumpByWasm({
  address,
  args,
  env,
  signal,
  maxMemoryMb = maxDumpMemoryMb,
}: DumpRun): AsyncGenerator<Uint8Array> {
  const control = new Int32Array(new SharedArrayBuffer(slots * Int32Array.BYTES_PER_ELEMENT));
  const { port1: spent, port2: forWorker } = new MessageChannel();
  const pieces = new Pieces((size, { buffer }) => {
    spent.postMessage(buffer, [buffer as ArrayBuffer]);
    Atomics.add(control, slot.acknowledged, size);
    Atomics.notify(control, slot.acknowledged);
  });
  const fail = () => pieces.fail(signal.reason);
  signal.addEventListener('abort', fail, { once: true });
  if (signal.aborted) fail();
  const feed = openRing(control, address.tls ? hideChannelBinding() : (bytes) => bytes);
  const socket = await openSocket(address, feed.take);
  feed.follow(socket);
  const { ring } = feed;
  const worker = startWorker({
    control: control.buffer,
    ring,
    args,
    env,
    maxMemoryMb,
    spent: forWorker,
  });
  worker.on('message', (message: WorkerMessage) => {
    if (message.kind === 'send') socket.write(message.bytes);
    else if (message.kind === 'room') feed.goOn();
    else if (message.kind === 'piece') pieces.push(message.bytes);
    else if (message.code === 0) pieces.end();
    else pieces.fail(new DumpError(message.said));
  });
  worker.on('error', (error) => pieces.fail(error));
  worker.on('exit', () => pieces.fail(new Error('The thread that ran pg_dump has ended.')));
  try {
    yield* pieces;
  } finally {
    signal.removeEventListener('abort', fail);
    socket.destroy();
    await worker.terminate();
    spent.close();
  }
}

const readBytes = 64 * 1024;

/** `take`: returns false if the socket must not be read until it is resumed. */
async function openSocket(address: Address, take: (bytes: Buffer) => boolean): Promise<Socket> {
  if (address.tls) {
    const secure = await connectSecure(address);
    return secure.on('data', (bytes) => void (take(bytes) || secure.pause()));
  }
  // All reads go into the same memory.
  const onread = {
    buffer: Buffer.allocUnsafeSlow(readBytes),
    callback: (size: number, bytes: Uint8Array) => take((bytes as Buffer).subarray(0, size)),
  };
  return connect({ ...endpointOf(address), noDelay: true, keepAlive: true, onread });
}

/** pg_dump's JavaScript allocates only short-lived objects: a larger heap would only be filled before it is collected. */
const maxYoungGenerationSizeMb = 3;

/** Nothing of our environment (the master key may be in it) is there for WebAssembly to read. */
function startWorker(workerData: WorkerInput): Worker {
  const transferList = [workerData.spent];
  return new Worker(compiledFile('wasm-worker.js', import.meta.url), {
    workerData,
    transferList,
    env: {},
    argv: [],
    execArgv: [],
    resourceLimits: { maxYoungGenerationSizeMb },
  });
}

type Ring = {
  ring: SharedArrayBuffer;
  /** The bytes may be overwritten when it returns. False: there is no room, and the socket is resumed when there is. */
  take(bytes: Buffer): boolean;
  /** The thread has read. */
  goOn(): void;
  follow(socket: Socket): void;
};

/** Bytes from PostgreSQL go into the ring; while it is full, the socket is not read. */
function openRing(control: Int32Array, pass: (bytes: Buffer) => Buffer): Ring {
  const shared = new SharedArrayBuffer(ringBytes);
  const ring = new Uint8Array(shared);
  /** The bytes that did not fit. */
  let rest: Buffer | null = null;
  let resume = () => {};
  const put = (bytes: Buffer): number => {
    const written = Atomics.load(control, slot.written);
    const size = Math.min(ringBytes - distance(written, Atomics.load(control, slot.read)), bytes.length);
    const at = (written >>> 0) % ringBytes;
    const first = Math.min(size, ringBytes - at);
    ring.set(bytes.subarray(0, first), at);
    ring.set(bytes.subarray(first, size), 0);
    Atomics.store(control, slot.written, (written + size) | 0);
    Atomics.notify(control, slot.written);
    return size;
  };
  const putOrWait = (bytes: Buffer): number => {
    const size = put(bytes);
    if (size === bytes.length) return size;
    // Said before the second look: whatever is read after that look is announced.
    Atomics.store(control, slot.wantsRoom, 1);
    return size + put(bytes.subarray(size));
  };
  const close = () => {
    Atomics.store(control, slot.closed, 1);
    Atomics.notify(control, slot.written);
  };
  return {
    ring: shared,
    take: (bytes) => {
      const passed = pass(bytes);
      const waiting = rest ? Buffer.concat([rest, passed]) : passed;
      const size = rest ? 0 : putOrWait(waiting);
      rest = size < waiting.length ? Buffer.from(waiting.subarray(size)) : null;
      return rest === null;
    },
    goOn: () => {
      if (!rest) return;
      const size = putOrWait(rest);
      rest = size < rest.length ? rest.subarray(size) : null;
      if (!rest) resume();
    },
    follow: (socket) => {
      resume = () => void socket.resume();
      socket.on('error', close);
      socket.on('close', close);
    },
  };
}
