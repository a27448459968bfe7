// The thread of a base backup (base-backup-thread.ts).
import { setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import { baseBackup } from '../../postgres/replication/base-backup.ts';
import { identifySystem, openReplication } from '../../postgres/replication/replication.ts';
import { TarParts } from '../repository/tar-parts.ts';
import { openSource } from '../storage/open.ts';
import { StorageError } from '../storage/storage.ts';
import type { Copied, ThreadData, ThreadError, ThreadMessage } from './base-backup-thread.ts';
import { PartWriter } from './part-writer.ts';

const { source, key, cluster, id, address, parentManifest, maxRateKb } = workerData as ThreadData;
const repository = {
  storage: openSource(source),
  key: { key: Buffer.from(key.key), id: Buffer.from(key.id) },
  cluster,
};
const writer = new PartWriter(repository, id);
const ended = new AbortController();
/** About a tenth of the processor time that a thread with the usual priority gets, while both want it. */
const backupNiceness = 10;
/** Not at each of thousands of pieces. */
const progressMs = 200;

// Requests come first. On Linux this is the priority of the thread alone; other systems know only that of the process.
if (process.platform === 'linux') setPriority(0, backupNiceness);

parentPort?.once('message', () => ended.abort(new Error('The backup was ended.')));
try {
  tell({ kind: 'copied', copied: await copy() });
} catch (error) {
  await writer.abort();
  tell({ kind: 'failed', error: toPlain(ended.signal.aborted ? ended.signal.reason : error) });
}

async function copy(): Promise<Copied> {
  const session = await openReplication(address);
  ended.signal.addEventListener('abort', () => {
    session.destroy();
    // An upload may wait for a storage that does not answer.
    void writer.abort();
  });
  try {
    ended.signal.throwIfAborted();
    if ((await identifySystem(session)).cluster !== cluster)
      throw new Error('This is another PostgreSQL server.');
    const events = baseBackup(session, {
      label: `rowhouse ${id}`,
      maxRateKb,
      parentManifest: parentManifest && Buffer.from(parentManifest),
    });
    const { manifest, range } = await store(events);
    return { parts: await writer.finish(), manifest, range };
  } finally {
    session.close();
  }
}

async function store(events: ReturnType<typeof baseBackup>): Promise<Omit<Copied, 'parts'>> {
  let archive: TarParts | null = null;
  const manifest: Buffer[] = [];
  let range: Copied['range'] | null = null;
  let [expected, received, told] = [0, 0, 0];
  for await (const event of events) {
    if (event.kind === 'size') expected = event.bytes;
    else if (event.kind === 'archive') {
      // A tablespace that was created after the server was checked (tablespaces.ts).
      if (event.name !== 'base.tar') throw new Error('A tablespace was created during the backup.');
      archive = new TarParts();
    } else if (event.kind === 'end') range = event;
    else if (event.kind === 'manifest') {
      if (!archive?.isComplete) throw new Error('PostgreSQL sent an incomplete archive.');
      archive = null;
    } else if (archive) {
      for (const { part, bytes } of archive.cut(event.bytes)) await writer.write(part, bytes);
      received += event.bytes.length;
      if (expected > 0 && performance.now() - told > progressMs) {
        told = performance.now();
        tell({ kind: 'progress', fraction: Math.min(0.99, received / expected) });
      }
    } else manifest.push(event.bytes);
  }
  if (!range || manifest.length === 0) throw new Error('PostgreSQL did not complete the backup.');
  const { startLsn, endLsn, timeline } = range;
  return { manifest: Buffer.concat(manifest), range: { startLsn, endLsn, timeline } };
}

function toPlain(error: unknown): ThreadError {
  const { message, sqlstate } = error as Error & { sqlstate?: string };
  return {
    message,
    ...(error instanceof StorageError && { problem: error.problem }),
    ...(sqlstate && { sqlstate }),
  };
}

function tell(message: ThreadMessage): void {
  parentPort?.postMessage(message);
}
