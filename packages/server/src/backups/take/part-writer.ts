// Writes the parts of a base backup while they arrive, in the thread of the backup. Several uploads overlap: storage takes
// long to answer, and a server with thousands of projects has thousands of parts.
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { type UnlessFailed, unlessFailed } from '../../lib/pause.ts';
import { compressedHere, encrypt } from '../repository/encryption.ts';
import { type BackupPart, names, type Repository } from '../repository/repository.ts';

type Upload = { pipe: PassThrough; done: Promise<BackupPart>; unlessFailed: UnlessFailed; bytes: number };

const bufferedBytes = 1024 * 1024;
const maxFinishing = 4;

export class PartWriter {
  private readonly repository: Repository;
  private readonly id: string;
  private readonly stopped = new AbortController();
  private readonly open = new Map<string, Upload>();
  /** Parts whose content is complete and that the storage has not confirmed yet. */
  private readonly finishing = new Set<Promise<BackupPart>>();
  private readonly parts: BackupPart[] = [];
  private readonly seen = new Set<string>();

  constructor(repository: Repository, id: string) {
    this.repository = repository;
    this.id = id;
  }

  async write(part: string, bytes: Buffer): Promise<void> {
    const upload = this.open.get(part) ?? (await this.begin(part));
    upload.bytes += bytes.length;
    if (upload.pipe.write(bytes)) return;
    // A failed upload does not drain.
    await upload.unlessFailed(once(upload.pipe, 'drain'));
  }

  /** All parts, once the storage has confirmed them. */
  async finish(): Promise<BackupPart[]> {
    for (const part of [...this.open.keys()]) this.end(part);
    await Promise.all(this.finishing);
    return this.parts.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Ends all uploads. Nothing of those that were not complete becomes visible. */
  async abort(): Promise<void> {
    this.stopped.abort();
    for (const { pipe, done } of this.open.values()) {
      pipe.destroy(new Error('The backup was ended.'));
      await done.catch(() => {});
    }
    await Promise.allSettled(this.finishing);
  }

  /** PostgreSQL sends one database after the other: a new one means that the last one is complete. */
  private async begin(part: string): Promise<Upload> {
    if (this.seen.has(part)) throw new Error(`PostgreSQL sent parts of ${part} twice.`);
    this.seen.add(part);
    if (part.startsWith('db-')) {
      for (const other of this.open.keys()) if (other.startsWith('db-')) this.end(other);
    }
    if (this.finishing.size >= maxFinishing) await Promise.race(this.finishing);
    const pipe = new PassThrough({ highWaterMark: bufferedBytes });
    // An upload that failed before it read anything does not listen, and `abort` must not end the process.
    pipe.on('error', () => {});
    const done = this.store(part, pipe, () => upload.bytes);
    // Its failure is reported by write or finish.
    const upload: Upload = { pipe, bytes: 0, done, unlessFailed: unlessFailed(done) };
    this.open.set(part, upload);
    return upload;
  }

  private async store(part: string, pipe: PassThrough, bytes: () => number): Promise<BackupPart> {
    const name = names.part(this.repository, this.id, part);
    const { storage, key } = this.repository;
    const stored = await storage.put(name, encrypt(key, name, pipe, compressedHere), this.stopped.signal);
    return { name: part, bytes: bytes(), stored_bytes: stored.bytes, sha256: stored.sha256 };
  }

  private end(part: string): void {
    const upload = this.open.get(part);
    if (!upload) return;
    this.open.delete(part);
    upload.pipe.end();
    const done = upload.done.then((stored) => {
      this.parts.push(stored);
      this.finishing.delete(done);
      return stored;
    });
    done.catch(() => {});
    this.finishing.add(done);
  }
}
