// Reads and writes the objects of a backup repository by name. backups/README.md describes its format.

import type { Content, Storage, Stored, StoredObject } from '../storage/storage.ts';
import { StorageError } from '../storage/storage.ts';
import { type BackupKey, backupKeyOf, decrypt, encrypt } from './encryption.ts';
import { decryptInThread, encryptInThread } from './encryption-thread.ts';

export type Repository = Readonly<{
  storage: Storage;
  key: BackupKey;
  /** PostgreSQL's system identifier. */
  cluster: string;
}>;

export type BackupPart = { name: string; bytes: number; stored_bytes: number; sha256: string };

/** The object `backup`, as backups/README.md describes it. */
export type BackupDescription = {
  format: 1;
  id: string;
  kind: 'full' | 'incremental';
  parent: string | null;
  cluster: string;
  timeline: number;
  postgres: string;
  /** Not in backups by earlier versions. */
  superuser?: string;
  /**
   * What a restore keeps of the configuration of a server that is not embedded. null: the embedded one, whose configuration is
   * kept whole.
   */
  configuration?: Readonly<Record<string, string>> | null;
  segment_bytes: number;
  start_lsn: string;
  end_lsn: string;
  started_at: string;
  ended_at: string;
  databases: { oid: number; name: string }[];
  parts: BackupPart[];
  manifest: BackupPart;
};

/** The size limit of an object that is read as a whole: a description or a manifest. */
const maxWholeBytes = 512 * 1024 * 1024;

export function openRepository(storage: Storage, masterKey: Buffer, cluster: string): Repository {
  return { storage, key: backupKeyOf(masterKey), cluster };
}

/** The clusters that have backups in a storage, for a restore that has no data folder to read its cluster from. */
export async function listClusters(storage: Storage): Promise<string[]> {
  const clusters: string[] = [];
  for (const cluster of (await storage.folders('')).filter((name) => /^\d+$/.test(name))) {
    if ((await storage.folders(`${cluster}/base/`)).length > 0) clusters.push(cluster);
  }
  return clusters;
}

export const names = {
  backups: ({ cluster }: Repository) => `${cluster}/base/`,
  backup: ({ cluster }: Repository, id: string) => `${cluster}/base/${id}/backup`,
  part: ({ cluster }: Repository, id: string, part: string) => `${cluster}/base/${id}/${part}`,
  wal: ({ cluster }: Repository, timeline: number) => `${cluster}/wal/${timelineText(timeline)}/`,
};

export async function* namesOf(objects: AsyncIterable<StoredObject>): AsyncGenerator<string> {
  for await (const { name } of objects) yield name;
}

export function timelineText(timeline: number): string {
  return timeline.toString(16).toUpperCase().padStart(8, '0');
}

export function putObject(
  { storage, key }: Repository,
  name: string,
  content: Content,
  signal?: AbortSignal,
): Promise<Stored> {
  return storage.put(name, encrypt(key, name, content), signal);
}

/** Rejects with StorageError or DecryptionError. */
export async function* getObject(
  { storage, key }: Repository,
  name: string,
  signal?: AbortSignal,
): AsyncGenerator<Buffer> {
  yield* decrypt(key, name, await storage.get(name, signal));
}

export async function readObject(
  repository: Repository,
  name: string,
  { maxBytes = maxWholeBytes, signal }: { maxBytes?: number; signal?: AbortSignal } = {},
): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of getObject(repository, name, signal)) {
    bytes += piece.length;
    if (bytes > maxBytes) throw new Error(`${name} has more than ${maxBytes} bytes.`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces, bytes);
}

/** For an object that fits into memory, such as a segment of WAL: it is decrypted in a thread once all of it is there. */
export async function readSmall(
  { storage, key }: Repository,
  name: string,
  { maxBytes, signal }: { maxBytes: number; signal?: AbortSignal },
): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of await storage.get(name, signal)) {
    bytes += piece.length;
    // Content that cannot be compressed becomes a little larger.
    if (bytes > maxBytes * 2) throw new Error(`${name} is larger than ${maxBytes} bytes can be.`);
    pieces.push(piece);
  }
  const content = await decryptInThread(key, name, Buffer.concat(pieces, bytes), maxBytes);
  return Buffer.from(content.buffer, content.byteOffset, content.length);
}

/**
 * Stores an object that may be there already: an upload can succeed although its answer is lost. Other content under the
 * same name means that another server writes into this repository.
 */
export async function putOnce(
  repository: Repository,
  name: string,
  content: Buffer,
  signal?: AbortSignal,
): Promise<void> {
  try {
    await putWhole(repository, name, content, signal);
  } catch (error) {
    if (!(error instanceof StorageError) || error.problem !== 'exists') throw error;
    const present = await readObject(repository, name, {
      maxBytes: content.length,
      ...(signal && { signal }),
    });
    if (!present.equals(content)) throw new RepositoryConflict(repository, name);
  }
}

async function putWhole(
  { storage, key }: Repository,
  name: string,
  content: Buffer,
  signal?: AbortSignal,
): Promise<void> {
  if (content.length < threadFromBytes) {
    await storage.put(name, encrypt(key, name, [content]), signal);
    return;
  }
  const encrypted = await encryptInThread(key, name, content);
  signal?.throwIfAborted();
  await storage.put(name, slices(encrypted), signal);
}
const threadFromBytes = 256 * 1024;

/** Storage computes a checksum of each slice in the event loop. */
function* slices(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += sliceBytes) yield bytes.subarray(at, at + sliceBytes);
}
const sliceBytes = 1024 * 1024;

/** Two servers with the same identity store into one place, so neither can be restored. */
export class RepositoryConflict extends Error {
  override readonly name = 'RepositoryConflict';

  constructor({ storage, cluster }: Repository, object: string) {
    super(
      `${storage.place} already contains other WAL of the server ${cluster} (${object}). A copy of this server uses it too.`,
    );
  }
}
