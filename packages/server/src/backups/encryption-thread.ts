// Encrypts whole objects in a thread. A segment of WAL has 256 frames, and frame by frame in the event loop each takes several
// turns of it: on a busy machine, encrypting and writing a segment took 1.3 s, and flushing it 0.05 s.
import { Worker } from 'node:worker_threads';
import type { BackupKey } from './encryption.ts';

export type EncryptionRequest = {
  id: number;
  key: Uint8Array;
  keyId: Uint8Array;
  name: string;
  content: Uint8Array;
};
export type EncryptionResult = { id: number; encrypted: Uint8Array };
type Waiting = { resolve: (encrypted: Uint8Array) => void; reject: (error: Error) => void };

/** A thread takes 10 MB, and a service may have nothing to store for hours. */
const idleMs = 30_000;

let worker: Worker | null = null;
let idle: NodeJS.Timeout | undefined;
let next = 0;
const waiting = new Map<number, Waiting>();

export function encryptInThread(
  { key, id: keyId }: BackupKey,
  name: string,
  content: Uint8Array,
): Promise<Uint8Array> {
  clearTimeout(idle);
  const thread = worker ?? start();
  const id = ++next;
  // A service that stops waits for what it stores.
  thread.ref();
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    const request: EncryptionRequest = { id, key, keyId, name, content };
    thread.postMessage(request);
  });
}

function start(): Worker {
  const started = new Worker(workerFile(), { env: {}, argv: [], execArgv: [] });
  const fail = (error: Error) => {
    if (worker !== started) return;
    worker = null;
    const failed = [...waiting.values()];
    waiting.clear();
    for (const { reject } of failed) reject(error);
  };
  started.on('message', ({ id, encrypted }: EncryptionResult) => {
    waiting.get(id)?.resolve(encrypted);
    waiting.delete(id);
    if (waiting.size === 0) rest(started);
  });
  started.on('error', fail);
  started.on('exit', () => fail(new Error('The thread that encrypts backups has ended.')));
  worker = started;
  return started;
}

function rest(thread: Worker): void {
  thread.unref();
  idle = setTimeout(() => {
    if (worker === thread) worker = null;
    void thread.terminate();
  }, idleMs);
  idle.unref();
}

function workerFile(): URL {
  // Beside this file once compiled. Tests run the sources, but a thread cannot.
  const here = import.meta.url;
  const name = 'encryption-worker.js';
  return new URL(here.endsWith('.ts') ? `../../dist/backups/${name}` : `./${name}`, here);
}
