// Reads a base backup from PostgreSQL and stores its parts, in a thread: in the event loop that serves requests it would take
// time for each megabyte, and its buffers make the garbage collector run more often.
import { Worker } from 'node:worker_threads';
import { compiledFile } from '../../lib/compiled-file.ts';
import type { Address } from '../../postgres/admin/database.ts';
import { atPrimary } from '../../postgres/wire/connect.ts';
import { RefusedError } from '../../postgres/wire/session-errors.ts';
import type { BackupKey } from '../repository/encryption.ts';
import type { BackupPart, Repository } from '../repository/repository.ts';
import { StorageError, type StorageProblem, type StorageSource } from '../storage/storage.ts';

export type CopyRequest = {
  id: string;
  address: Address;
  /** For an incremental backup. null: a full one. */
  parentManifest: Uint8Array | null;
  maxRateKb: number | null;
};
export type ThreadData = CopyRequest & {
  source: StorageSource;
  key: { [Field in keyof BackupKey]: Uint8Array };
  cluster: string;
};
export type Copied = {
  parts: BackupPart[];
  manifest: Uint8Array;
  range: { startLsn: bigint; endLsn: bigint; timeline: number };
};
export type ThreadError = { message: string; problem?: StorageProblem; sqlstate?: string };
export type ThreadMessage =
  | { kind: 'progress'; fraction: number }
  | { kind: 'copied'; copied: Copied }
  /** After all uploads have ended: nothing of those that were not complete becomes visible. */
  | { kind: 'failed'; error: ThreadError };

/** A storage that does not answer must not keep a service from stopping. */
const abortMs = 5_000;

/** Rejects with what PostgreSQL or the storage reported, when the thread has ended. */
export async function copyInThread(
  { storage, key, cluster }: Repository,
  request: CopyRequest,
  signal: AbortSignal,
  progress: (fraction: number) => void,
): Promise<Copied> {
  signal.throwIfAborted();
  const workerData: ThreadData = {
    ...request,
    source: await storage.source(),
    key,
    cluster,
    address: atPrimary(request.address),
  };
  const worker = new Worker(compiledFile('base-backup-worker.js', import.meta.url), {
    workerData,
    env: {},
    argv: [],
    execArgv: [],
  });
  let late: NodeJS.Timeout | undefined;
  const abort = () => {
    worker.postMessage('abort');
    late = setTimeout(() => void worker.terminate(), abortMs);
  };
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await new Promise<Copied>((resolve, reject) => {
      worker.on('message', (message: ThreadMessage) => {
        if (message.kind === 'progress') progress(message.fraction);
        else if (message.kind === 'copied') resolve(message.copied);
        else reject(errorOf(message.error));
      });
      worker.on('error', reject);
      worker.on('exit', () => reject(new Error('The thread that stores backups has ended.')));
    });
  } finally {
    signal.removeEventListener('abort', abort);
    clearTimeout(late);
    await worker.terminate();
  }
}

function errorOf({ message, problem, sqlstate }: ThreadError): Error {
  if (problem) return new StorageError(problem, message);
  return sqlstate ? new RefusedError({ severity: 'ERROR', state: sqlstate, message }) : new Error(message);
}
