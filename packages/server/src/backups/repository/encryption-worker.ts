// The thread that encrypts and decrypts whole objects (encryption-thread.ts).
import { parentPort } from 'node:worker_threads';
import { type BackupKey, DecryptionError, decrypt, encryptWhole } from './encryption.ts';
import type { EncryptionJob, EncryptionResult } from './encryption-thread.ts';

parentPort?.on('message', (job: EncryptionJob) => {
  void run(job).then(({ result, transfer }) => parentPort?.postMessage(result, transfer));
});

type Outcome = { result: EncryptionResult; transfer: ArrayBuffer[] };

async function run({ id, kind, maxBytes, key, keyId, name, content }: EncryptionJob): Promise<Outcome> {
  const backupKey = { key: Buffer.from(key), id: Buffer.from(keyId) };
  try {
    const bytes =
      kind === 'encrypt'
        ? encryptWhole(backupKey, name, content)
        : await decryptWhole(backupKey, name, content, maxBytes);
    // A large buffer has its memory to itself, so it can be handed over without a copy. Small ones share a pool.
    const isOwn = bytes.buffer.byteLength === bytes.byteLength;
    return { result: { id, bytes }, transfer: isOwn ? [bytes.buffer as ArrayBuffer] : [] };
  } catch (error) {
    const problem = error instanceof DecryptionError ? error.problem : null;
    return { result: { id, problem, message: (error as Error).message }, transfer: [] };
  }
}

async function decryptWhole(
  key: BackupKey,
  name: string,
  stored: Uint8Array,
  maxBytes: number,
): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of decrypt(key, name, [stored])) {
    bytes += piece.length;
    if (bytes > maxBytes) throw new Error(`${name} has more than ${maxBytes} bytes.`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces, bytes);
}
