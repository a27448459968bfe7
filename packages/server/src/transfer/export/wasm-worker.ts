// The thread that runs pg_dump as WebAssembly. Its socket is a ring in shared memory, its output file a device that posts
// pieces; both make it wait inside the call, so that memory stays flat whatever the size of the dump.
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import {
  distance,
  ringBytes,
  slot,
  type WorkerInput,
  type WorkerMessage,
  windowBytes,
} from './wasm-channel.ts';
import { type DumpModule, loadDumpModule } from './wasm-module.ts';

const input = workerData as WorkerInput;
const control = new Int32Array(input.control);
const ring = new Uint8Array(input.ring);

const pieceBytes = 64 * 1024;
const maxSaid = 16 * 1024;
const outputFile = '/tmp/dump';
/** The number of EAGAIN in emscripten. */
const eagain = 6;
const readyForQuery = 90;

let exitCode = 0;
let said = '';
let piece = new Uint8Array(pieceBytes);
let filled = 0;
let posted = 0;
/** pg_dump has been handed all that PostgreSQL had to say, and has not asked for more. */
let isIdle = false;
/** The head of the message that is being handed on, as far as it has come, and how much of its body is to come. */
const head = new Uint8Array(5);
let headFilled = 0;
let bodyLeft = 0;

function post(message: WorkerMessage, transfer: ArrayBuffer[] = []): void {
  parentPort?.postMessage(message, transfer);
}

function say(line: string): void {
  if (said.length < maxSaid) said += `${line}\n`;
}

/** libpq reads on after the end of an answer and must hear then that there is nothing; anywhere else it waits here. */
function receive(module: DumpModule, pointer: number, max: number): number {
  for (;;) {
    const written = Atomics.load(control, slot.written);
    const read = Atomics.load(control, slot.read);
    const size = Math.min(distance(written, read), max);
    if (size > 0) {
      const at = (read >>> 0) % ringBytes;
      const first = Math.min(size, ringBytes - at);
      module.HEAPU8.set(ring.subarray(at, at + first), pointer);
      module.HEAPU8.set(ring.subarray(0, size - first), pointer + first);
      follow(module.HEAPU8, pointer, pointer + size);
      Atomics.store(control, slot.read, (read + size) | 0);
      // Not for each read, which are of 16 KB: each message wakes the service's own thread.
      if (
        distance(written, read + size) <= ringBytes / 2 &&
        Atomics.exchange(control, slot.wantsRoom, 0) === 1
      )
        post({ kind: 'room' });
      return size;
    }
    if (Atomics.load(control, slot.closed) === 1) return 0;
    if (isIdle) {
      module.HEAP32[module.___errno_location() >> 2] = eagain;
      return -1;
    }
    Atomics.wait(control, slot.written, written, 1_000);
  }
}

/** Where messages begin and end, to know whether the last one said that PostgreSQL is ready for the next query. */
function follow(bytes: Uint8Array, start: number, end: number): void {
  let at = start;
  while (at < end) {
    if (bodyLeft > 0) {
      const size = Math.min(bodyLeft, end - at);
      bodyLeft -= size;
      at += size;
      continue;
    }
    head[headFilled++] = bytes[at++] as number;
    if (headFilled < head.length) continue;
    headFilled = 0;
    bodyLeft = new DataView(head.buffer).getUint32(1) - 4;
  }
  isIdle = bodyLeft === 0 && headFilled === 0 && head[0] === readyForQuery;
}

function send(module: DumpModule, pointer: number, size: number): number {
  isIdle = false;
  post({ kind: 'send', bytes: module.HEAPU8.slice(pointer, pointer + size) });
  return size;
}

function write(bytes: Uint8Array, offset: number, size: number): number {
  for (let at = 0; at < size; ) {
    const taken = Math.min(size - at, pieceBytes - filled);
    piece.set(bytes.subarray(offset + at, offset + at + taken), filled);
    filled += taken;
    at += taken;
    if (filled === pieceBytes) postPiece();
  }
  return size;
}

function postPiece(): void {
  if (filled === 0) return;
  posted = (posted + filled) | 0;
  post({ kind: 'piece', bytes: piece.subarray(0, filled) }, [piece.buffer]);
  filled = 0;
  for (;;) {
    const acknowledged = Atomics.load(control, slot.acknowledged);
    if (distance(posted, acknowledged) <= windowBytes) break;
    Atomics.wait(control, slot.acknowledged, acknowledged, 1_000);
  }
  // New memory for each piece would add up to tens of megabytes before it is collected.
  const back = receiveMessageOnPort(input.spent) as { message: ArrayBuffer } | undefined;
  piece = new Uint8Array(back?.message ?? new ArrayBuffer(pieceBytes));
}

const options = {
  print: () => {},
  printErr: say,
  onExit: (code: number) => {
    exitCode = code;
  },
  preRun: [(module: DumpModule) => void Object.assign(module.ENV, input.env)],
};
const dump = await loadDumpModule(options, input.maxMemoryMb);
dump._pgl_set_rw_cbs(
  dump.addFunction((pointer, max) => receive(dump, pointer, max), 'iii'),
  dump.addFunction((pointer, size) => send(dump, pointer, size), 'iii'),
);
const device = dump.FS.makedev(64, 0);
// No llseek: pg_dump must not believe that it can go back and write the table of contents again.
dump.FS.registerDevice(device, {
  open: () => {},
  close: () => {},
  read: () => 0,
  write: (_stream: unknown, bytes: Uint8Array, offset: number, size: number) => write(bytes, offset, size),
});
dump.FS.mkdev(outputFile, 0o600, device);
try {
  dump.callMain([...input.args, `--file=${outputFile}`]);
} catch (error) {
  say(String(error));
  exitCode ||= 1;
}
if (exitCode === 0) postPiece();
post({ kind: 'end', code: exitCode, said });
