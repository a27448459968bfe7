// pg_dump without an installation: the WebAssembly of pg_dump 18 in a thread of its own. The socket to PostgreSQL stays
// here, because a thread that is inside WebAssembly has no event loop.
import { connect, type Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { hideChannelBinding } from '../postgres/channel-binding.ts';
import { connectSecure, endpointOf } from '../postgres/connect.ts';
import type { Address } from '../postgres/database.ts';
import { Pieces } from '../postgres/pieces.ts';
import { DumpError, type DumpRun } from './pg-dump.ts';
import { distance, ringBytes, slot, slots, type WorkerInput, type WorkerMessage } from './wasm-channel.ts';

/**
 * pg_dump keeps all definitions in memory until it has written the last one, and 100 MB of a function's text take 1 MB in
 * PostgreSQL: a small project could take all the memory of the machine.
 */
const usualMemoryMb = 1024;

/** The dump as it comes. Ends its thread and its connection however it ends. */
export async function* dumpByWasm({
  address,
  args,
  env,
  signal,
  maxMemoryMb = usualMemoryMb,
}: DumpRun): AsyncGenerator<Uint8Array> {
  const control = new Int32Array(new SharedArrayBuffer(slots * Int32Array.BYTES_PER_ELEMENT));
  const pieces = new Pieces((size) => {
    Atomics.add(control, slot.acknowledged, size);
    Atomics.notify(control, slot.acknowledged);
  });
  const fail = () => pieces.fail(signal.reason);
  signal.addEventListener('abort', fail, { once: true });
  if (signal.aborted) fail();
  const socket = await openSocket(address);
  const feed = feedRing(socket, control, address.tls ? hideChannelBinding() : (bytes) => bytes);
  const worker = startWorker({ control: control.buffer, ring: feed.ring, args, env, maxMemoryMb });
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
  }
}

async function openSocket(address: Address): Promise<Socket> {
  return address.tls
    ? connectSecure(address)
    : connect({ ...endpointOf(address), noDelay: true, keepAlive: true });
}

/** Nothing of our environment (the master key may be in it) is there for WebAssembly to read. */
function startWorker(workerData: WorkerInput): Worker {
  return new Worker(workerFile(), { workerData, env: {}, argv: [], execArgv: [] });
}

/** Bytes from PostgreSQL go into the ring; while it is full, the socket is not read. */
function feedRing(
  socket: Socket,
  control: Int32Array,
  pass: (bytes: Buffer) => Buffer,
): { ring: SharedArrayBuffer; goOn: () => void } {
  const shared = new SharedArrayBuffer(ringBytes);
  const ring = new Uint8Array(shared);
  const waiting: Buffer[] = [];
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
  const goOn = () => {
    for (let bytes = waiting.shift(); bytes; bytes = waiting.shift()) {
      let size = put(bytes);
      if (size < bytes.length) {
        // Said before the second look: whatever is read after that look is announced.
        Atomics.store(control, slot.wantsRoom, 1);
        size += put(bytes.subarray(size));
      }
      if (size === bytes.length) continue;
      waiting.unshift(bytes.subarray(size));
      return;
    }
    socket.resume();
  };
  socket.on('data', (bytes) => {
    waiting.push(pass(bytes));
    socket.pause();
    goOn();
  });
  const close = () => {
    Atomics.store(control, slot.closed, 1);
    Atomics.notify(control, slot.written);
  };
  socket.on('error', close);
  socket.on('close', close);
  return { ring: shared, goOn };
}

function workerFile(): URL {
  // Beside this file once compiled; tests run the sources, and a thread cannot.
  const here = import.meta.url;
  return new URL(here.endsWith('.ts') ? '../../dist/dumps/wasm-worker.js' : './wasm-worker.js', here);
}
