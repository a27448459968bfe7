// The thread that encrypts whole objects (encryption-thread.ts).
import { parentPort } from 'node:worker_threads';
import { encryptWhole } from './encryption.ts';
import type { EncryptionRequest, EncryptionResult } from './encryption-thread.ts';

parentPort?.on('message', ({ id, key, keyId, name, content }: EncryptionRequest) => {
  const encrypted = encryptWhole({ key: Buffer.from(key), id: Buffer.from(keyId) }, name, content);
  const result: EncryptionResult = { id, encrypted };
  // A large buffer has its memory to itself, so it can be handed over without a copy. Small ones share a pool.
  const isOwn = encrypted.buffer.byteLength === encrypted.byteLength;
  parentPort?.postMessage(result, isOwn ? [encrypted.buffer as ArrayBuffer] : []);
});
