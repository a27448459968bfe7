// Encrypts and decrypts whole objects in a thread. A segment of WAL has 256 frames, and frame by frame in the event loop each takes
// several turns of it: on a busy machine, encrypting and writing a segment took 1.3 s, and flushing it 0.05 s.
import { Worker } from 'node:worker_threads';
import { compiledFile } from '../../lib/compiled-file.ts';
import { type BackupKey, DecryptionError } from './encryption.ts';

export type EncryptionJob = {
  id: number;
  kind: 'encrypt' | 'decrypt';
  /** The largest result of decrypting. */
  maxBytes: number;
  key: Uint8Array;
  keyId: Uint8Array;
  name: string;
  content: Uint8Array;
};
/** `problem`: of a DecryptionError. null: another error. */
export type EncryptionResult =
  | { id: number; bytes: Uint8Array }
  | { id: number; problem: DecryptionError['problem'] | null; message: string };
type Waiting = { resolve: (bytes: Uint8Array) => void; reject: (error: Error) => void };

/** A thread takes 10 MB, and a service may have nothing to store for hours. */
const idleMs = 30_000;

let worker: Worker | null = null;
let idle: NodeJS.Timeout | undefined;
let next = 0;
const waiting = new Map<number, Waiting>();

export function encryptInThread(key: BackupKey, name: string, content: Uint8Array): Promise<Uint8Array> {
  return runInThread('encrypt', key, name, content, 0);
}

/** Rejects if the content has more than `maxBytes`. */
export function decryptInThread(
  key: BackupKey,
  name: string,
  stored: Uint8Array,
  maxBytes: number,
): Promise<Uint8Array> {
  return runInThread('decrypt', key, name, stored, maxBytes);
}

function runInThread(
  kind: EncryptionJob['kind'],
  { key, id: keyId }: BackupKey,
  name: string,
  content: Uint8Array,
  maxBytes: number,
): Promise<Uint8Array> {
  clearTimeout(idle);
  const thread = worker ?? start();
  const id = ++next;
  // A service that stops waits for what it stores.
  thread.ref();
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    const job: EncryptionJob = { id, kind, maxBytes, key, keyId, name, content };
    thread.postMessage(job);
  });
}

function start(): Worker {
  const started = new Worker(compiledFile('encryption-worker.js', import.meta.url), {
    env: {},
    argv: [],
    execArgv: [],
  });
  const fail = (error: Error) => {
    if (worker !== started) return;
    worker = null;
    const failed = [...waiting.values()];
    waiting.clear();
    for (const { reject } of failed) reject(error);
  };
  started.on('message', (result: EncryptionResult) => {
    const asked = waiting.get(result.id);
    waiting.delete(result.id);
    if ('bytes' in result) asked?.resolve(result.bytes);
    else asked?.reject(errorOf(result.problem, result.message));
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

function errorOf(problem: DecryptionError['problem'] | null, message: string): Error {
  return problem ? new DecryptionError(problem, message) : new Error(message);
}
